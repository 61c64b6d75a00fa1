"""Compiled code in many threads, in forked children and in the workers of multiprocessing."""

from __future__ import annotations

import enum
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from saying import shout

import cdynamo

np = pytest.importorskip("numpy")

LARGE = np.arange(200_000.0).reshape(400, 500)


def in_threads(work, count=6):
    """Runs `work(i)` in each thread; raises what the first of them raised."""
    errors = []

    def guarded(i):
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def until(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield


def normalized(x):
    y = (x - x.mean(axis=0)) / (x.std(axis=0) + 1)
    return np.exp(-(y * y)).sum(axis=1)


def test_threads_share_one_entry():
    fast = cdynamo.optimize(normalized)

    def work(i):
        x = LARGE + i
        expected = normalized(x)
        for _ in range(10):
            np.testing.assert_allclose(fast(x), expected)

    before = cdynamo.counters()["graphs_compiled"]
    in_threads(work)
    assert cdynamo.counters()["graphs_compiled"] - before == 1


def with_break(x, n):
    y = x * 2
    shout(end="")
    for _ in range(n):
        y = y + 1
    return y


def test_threads_call_compile_and_reset():
    fast = cdynamo.optimize(with_break)

    def work(i):
        if i == 0:
            for _ in until(1.5):
                cdynamo.reset()
                time.sleep(0.001)
            return
        for turn, _ in enumerate(until(1.5)):
            x = np.arange(float(1 + (i + turn) % 7))
            assert fast(x, i).tolist() == (x * 2 + i).tolist()
            if turn % 10 == 0:
                assert cdynamo.optimize(lambda a: a - 1)(x).tolist() == (x - 1).tolist()

    in_threads(work)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def test_threads_replace_what_guards_look_at():
    """A guard on an enum member as a key runs no Python code (Enum.__hash__): no thread comes in between."""

    class Box:
        pass

    box = Box()
    box.table = {Color.RED: 2.0, Color.BLUE: 3.0}

    def f(x, box):
        return x * box.table[Color.RED] + box.table[Color.BLUE]

    fast = cdynamo.optimize(f)
    x = np.ones(4)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work(i):
        for _ in until(1.5):
            if i == 0:
                box.table = {Color.RED: 2.0, Color.BLUE: 3.0}
                box.table = dict(box.table)
            else:
                assert fast(x, box).tolist() == [5.0] * 4

    try:
        in_threads(work, 4)
    finally:
        sys.setswitchinterval(interval)


def test_a_dict_s_enum_key_is_found_without_its_hash_function():
    calls = []

    class Key(enum.Enum):
        A = 1

        def __hash__(self):
            calls.append(self)
            return hash(self._name_)

    def f(x, table):
        return x * table[Key.A]

    fast = cdynamo.optimize(f)
    table = {Key.A: 2.0}
    for _ in range(3):
        assert fast(np.ones(2), table).tolist() == [2, 2]
    calls.clear()
    fast(np.ones(2), table)
    assert calls == []


def check_child(work):
    """Forks; the child runs `work` and leaves with 0."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


def test_fork_after_compiling():
    fast = cdynamo.optimize(normalized)
    expected = normalized(LARGE)
    np.testing.assert_allclose(fast(LARGE), expected)

    def work():
        np.testing.assert_allclose(fast(LARGE), expected)  # what the parent compiled
        smaller = LARGE[:300]
        np.testing.assert_allclose(fast(smaller), normalized(smaller))  # compiled again, dynamic
        x = LARGE.copy()
        product = cdynamo.optimize(lambda a: a @ a.T + 1)  # compiled in the child
        np.testing.assert_allclose(product(x), x @ x.T + 1)
        cdynamo.reset()
        np.testing.assert_allclose(fast(LARGE), expected)

    check_child(work)
    np.testing.assert_allclose(fast(LARGE), expected)


def test_fork_while_other_threads_run():
    fast = cdynamo.optimize(normalized)
    expected = normalized(LARGE)
    fast(LARGE)

    def child():
        np.testing.assert_allclose(fast(LARGE), expected)
        assert cdynamo.optimize(lambda a: a + 2)(np.ones(3)).tolist() == [3, 3, 3]

    def work(i):
        if i == 0:
            for _ in range(5):
                check_child(child)
        else:
            for turn, _ in enumerate(until(1.5)):
                np.testing.assert_allclose(fast(LARGE), expected)
                cdynamo.optimize(lambda a, n=turn: a * 2 + n)(np.ones(3))

    in_threads(work, 3)


WORKERS = """
import multiprocessing
import sys

import numpy as np

import cdynamo


@cdynamo.optimize
def scaled(x):
    return (x * 2 + 1).sum(axis=0)


def work(x):
    return scaled(x)


if __name__ == "__main__":
    x = np.arange(12.0).reshape(3, 4)
    expected = (x * 2 + 1).sum(axis=0)
    assert np.allclose(scaled(x), expected)
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        for got in pool.map(work, [x] * 6):
            assert np.allclose(got, expected)
        # the optimized function itself is pickled
        for got in pool.map(scaled, [x] * 6):
            assert np.allclose(got, expected)
    print("done")
"""


@pytest.mark.parametrize("method", ("fork", "spawn", "forkserver"))
def test_multiprocessing(method, tmp_path):
    assert method in multiprocessing.get_all_start_methods()
    script = tmp_path / "workers.py"
    script.write_text(textwrap.dedent(WORKERS))
    run = subprocess.run([sys.executable, str(script), method], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0 and run.stdout == "done\n", run.stderr


def test_a_model_trains_in_a_forked_child():
    torch = pytest.importorskip("torch")
    if torch.accelerator.is_available():
        pytest.skip("PyTorch's engine has a thread for each accelerator and refuses to run in a forked child")
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    fast = cdynamo.optimize(model)
    x = torch.randn(32, 64)

    def gradients(called):
        model.zero_grad()
        called(x).square().mean().backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    expected = gradients(model)
    for got, wanted in zip(gradients(fast), expected):
        torch.testing.assert_close(got, wanted)

    def work():
        torch.set_num_threads(1)  # torch's own threads do not outlive a fork
        for got, wanted in zip(gradients(fast), expected):
            torch.testing.assert_close(got, wanted)

    check_child(work)
