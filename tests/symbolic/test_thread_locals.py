"""threading.local and what extends it: attributes are the thread's own."""

from __future__ import annotations

import threading

import pytest

import cdynamo


class Settings(threading.local):
    depth = 3
    names = ("a", "b")

    @property
    def deeper(self):
        return self.depth + 1

    def enter(self):
        self.depth += 1
        return self


class Named(Settings):
    pass


class Started(threading.local):
    def __init__(self, depth=1):
        self.depth = depth


class Checked(threading.local):
    def __setattr__(self, name, value):
        super().__setattr__(name, value + 1)


def read_and_written(local):
    before = local.depth
    local.depth = before + 2
    local.other = [local.depth]
    found = before, local.depth, local.names, local.deeper, local.enter().depth, hasattr(local, "missing")
    del local.other
    return found, sorted(vars(local)), local.__dict__ is vars(local), type(local).__name__


def missing(local):
    try:
        return local.missing
    except AttributeError as error:
        return str(error)


def in_a_thread(fn, *args):
    results = []
    thread = threading.Thread(target=lambda: results.append(fn(*args)))
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.parametrize("kind", [Settings, Named])
@pytest.mark.parametrize("program", [read_and_written, missing])
def test_attributes_are_those_of_the_thread(kind, program):
    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(program, fullgraph=True)
    outcomes = []
    for fn in (program, fast):
        local = kind()
        found = []
        for n in range(4):
            found += [fn(local), in_a_thread(fn, local), sorted(vars(local).items())]
            if n == 1:
                local.depth = 30
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]


def test_those_with_an_init_are_left_to_python():
    def program(local):
        local.depth += 1
        return local.depth

    fast, got, expected = cdynamo.optimize(program), Started(5), Started(5)
    for _ in range(3):
        assert fast(got) == program(expected) and in_a_thread(fast, got) == in_a_thread(program, expected) == 6


def test_those_with_a_setattr_run_it():
    def program(local):
        local.depth = 4
        return local.depth

    fast, local = cdynamo.optimize(program), Checked()
    assert [fast(local), fast(local), in_a_thread(fast, local)] == [5, 5, 5]
