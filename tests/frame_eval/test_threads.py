"""Threads that call, compile, reset and share compiled functions at once; run under ThreadSanitizer by `make tsan`."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
import threading

import pytest

import cdynamo

np = pytest.importorskip("numpy")

THREADS = 4
# Under ThreadSanitizer each round takes ten times as long.
ROUNDS = 8 if "libtsan" in os.environ.get("LD_PRELOAD", "") else 100


@pytest.fixture(autouse=True)
def frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(autouse=True)
def internal_errors_raise():
    cdynamo.config.suppress_errors = False


def run_together(*works) -> None:
    """Each of works(round) in a thread of its own, round after round, all starting at once; the first error is raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(works))

    def run(work) -> None:
        try:
            barrier.wait()
            for i in range(ROUNDS):
                work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def polynomial(x, k):
    return ((x * k + 1) * x - k).sum(axis=0)


def test_one_entry_is_called_by_all():
    fast = cdynamo.optimize(polynomial)
    xs = [np.random.rand(50, 40) + i for i in range(THREADS)]
    wanted = [polynomial(x, 2.0) for x in xs]
    works = [lambda _, x=x, w=w: np.testing.assert_allclose(fast(x, 2.0), w) for x, w in zip(xs, wanted)]
    run_together(*works)


def test_one_entry_with_large_arrays_is_called_by_all():
    fast = cdynamo.optimize(polynomial)
    xs = [np.random.rand(500, 400) + i for i in range(THREADS)]
    wanted = [polynomial(x, 2.0) for x in xs]
    works = [lambda _, x=x, w=w: np.testing.assert_allclose(fast(x, 2.0), w) for x, w in zip(xs, wanted)]
    run_together(*works)


def test_all_compile_the_same_function():
    def work(i: int) -> None:
        fast = shared[i]
        x = np.arange(12.0).reshape(3, 4)
        np.testing.assert_allclose(fast(x, float(i)), polynomial(x, float(i)))

    shared = [cdynamo.optimize(lambda x, k: polynomial(x, k)) for _ in range(ROUNDS)]
    run_together(*[work] * THREADS)


def test_each_thread_has_sizes_and_dtypes_of_its_own():
    fast = cdynamo.optimize(polynomial)

    def work_of(t: int):
        def work(i: int) -> None:
            x = np.ones((3 + i % 5, t + 2), dtype=[np.float32, np.float64][t % 2])
            np.testing.assert_allclose(fast(x, 3.0), polynomial(x, 3.0))

        return work

    run_together(*[work_of(t) for t in range(THREADS)])


def test_entries_are_reset_while_they_are_called():
    fast = cdynamo.optimize(polynomial)
    x = np.random.rand(20, 30)
    wanted = polynomial(x, 2.0)

    def call(i: int) -> None:
        for _ in range(5):
            np.testing.assert_allclose(fast(x, 2.0), wanted)

    run_together(*[call] * (THREADS - 1), lambda i: cdynamo.reset())


def test_what_a_guard_looks_at_changes_meanwhile():
    class Scale:
        factor = 1.0

    scale = Scale()

    @cdynamo.optimize
    def fast(x):
        return x * scale.factor

    x = np.ones(10)

    def call(i: int) -> None:
        result = fast(x)
        assert result[0] in (1.0, 2.0) and (result == result[0]).all()

    def change(i: int) -> None:
        scale.factor = 3.0 - scale.factor if i % 4 == 0 else scale.factor

    run_together(*[call] * (THREADS - 1), change)


def test_graph_breaks_in_all():
    @cdynamo.optimize
    def fast(x, seen):
        y = x * 2
        seen.append(threading.get_ident())
        cdynamo.graph_break()
        z = y + 1
        for _ in range(3):
            z = z + 1
            cdynamo.graph_break()
        return z.sum()

    def work(i: int) -> None:
        seen: list[int] = []
        assert fast(np.ones(10), seen) == 60.0
        assert seen == [threading.get_ident()]

    run_together(*[work] * THREADS)


def test_functions_are_made_and_dropped_in_all():
    def work(i: int) -> None:
        def local(x):
            return (x + i).sum()

        assert cdynamo.optimize(local)(np.ones(4)) == 4.0 + 4 * i

    run_together(*[work] * THREADS)


def test_reports_and_counters_meanwhile():
    fast = cdynamo.optimize(polynomial)

    def call(i: int) -> None:
        x = np.ones((2 + i % 3, 3))
        np.testing.assert_allclose(fast(x, 1.0), polynomial(x, 1.0))

    def look(i: int) -> None:
        assert cdynamo.counters()["graph_breaks"] >= 0
        str(cdynamo.explain(polynomial)(np.ones((2, 3)), 1.0))

    run_together(call, call, look)


@pytest.mark.native
def test_another_thread_compiles_while_a_stage_is_described():
    from cdynamo import _core_ops

    x = np.ones((2, 3))
    others: list[threading.Thread] = []

    def compile_another(frame, event, argument) -> None:
        if frame.f_code is _core_ops.function.__code__ and not others:
            others.append(threading.Thread(target=lambda: cdynamo.optimize(lambda x: x - 1)(x)))
            others[0].start()
            others[0].join()

    sys.setprofile(compile_another)
    try:
        explanation = cdynamo.explain(polynomial)(x, 1.0)
    finally:
        sys.setprofile(None)
    assert len(others) == 1
    np.testing.assert_allclose(explanation.result, polynomial(x, 1.0))
    stages = {
        frame.where: [graph.print_readable(print_output=False) for _, graph in frame.stages]
        for frame in explanation.frames
    }
    assert len(stages) == 2
    for where, (text,) in stages.items():
        assert ("core.sum" in text) == where.startswith("polynomial")


def test_the_first_compiles_of_a_process_happen_in_all():
    program = """
        import builtins, threading, time
        import numpy as np
        import cdynamo

        cdynamo.config.suppress_errors = False
        real_import = builtins.__import__

        def slow_import(*args, **kwargs):
            time.sleep(1e-3)  # other threads run
            return real_import(*args, **kwargs)

        def of_builtins(x):
            return sum(abs(x) * len(x.shape) for _ in range(2))

        def of_modules(x):
            return np.sqrt(x) + isinstance(x, np.ndarray)

        def call(f, barrier, x):
            fast = cdynamo.optimize(f)
            barrier.wait()
            np.testing.assert_array_equal(fast(x), f(x))

        functions = [of_builtins, of_modules, of_builtins, of_modules]
        barrier = threading.Barrier(len(functions))
        threads = [threading.Thread(target=call, args=(f, barrier, np.ones(3)), daemon=True) for f in functions]
        builtins.__import__ = slow_import
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert cdynamo.counters()["graph_breaks"] == 0
        print("done")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n" and not done.stderr, done.stdout + done.stderr


def test_training_steps_in_all():
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    fast = cdynamo.optimize(model)

    def work(i: int) -> None:
        x = torch.randn(5, 6, requires_grad=True)
        (wanted,) = torch.autograd.grad(model(x).sum(), x)
        (got,) = torch.autograd.grad(fast(x).sum(), x)
        torch.testing.assert_close(got, wanted)

    run_together(*[work] * THREADS)


@pytest.mark.native
def test_a_late_backward_is_compiled_while_another_thread_needs_it():
    torch = pytest.importorskip("torch")

    @cdynamo.optimize
    def fast(x, y):
        return (x * y).tanh(), (x + y).sin()

    def gradient_of_one():
        return torch.autograd.grad(fast(x, y)[1].sum(), y)[0]  # no backward of all that was compiled with the forward

    x, y = (torch.rand(3, requires_grad=True) for _ in range(2))
    wanted = torch.cos(x + y).detach()
    fast(x, y)
    found: list = []

    def call_in_another_thread(record: logging.LogRecord) -> bool:
        if not found and record.getMessage().startswith("backward"):
            found.append(None)
            thread = threading.Thread(target=lambda: found.append(gradient_of_one()))
            thread.start()
            thread.join()
        return False

    logger = logging.getLogger("cdynamo.aot")
    logger.addFilter(call_in_another_thread)  # no handler: one that logs holds a lock
    cdynamo.set_logs(aot=True)
    try:
        torch.testing.assert_close(gradient_of_one(), wanted)
    finally:
        cdynamo.set_logs(aot=False)
        logger.removeFilter(call_in_another_thread)
    assert len(found) == 2
    torch.testing.assert_close(found[1], wanted)


def test_what_holds_inputs_lets_go_of_them_while_the_graph_runs():
    class Holder:
        pass

    def make() -> Holder:
        holder = Holder()
        holder.weight = np.full(300_000, 2.0)
        return holder

    holder = make()

    @cdynamo.optimize
    def fast(x):
        weight = holder.weight
        y = x
        for _ in range(6):
            y = np.tanh(np.sin(y) * weight + np.exp(-y))
        return weight, weight[10:], y

    def call(i: int) -> None:
        weight, part, y = fast(np.ones(300_000))
        assert weight.shape == (300_000,) and (weight == 2).all() and (part == 2).all() and (y == y[0]).all()

    def change(i: int) -> None:
        for _ in range(20):
            holder.weight = np.full(300_000, 2.0)

    run_together(call, change)
