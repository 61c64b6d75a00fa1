"""Warm calls leave the process's memory where it was; reset() frees what was compiled."""

import gc
import sys
import weakref

import pytest
from saying import shout

import cdynamo

np = pytest.importorskip("numpy")


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def scaled(a, s):
    return np.exp(a) * s, a.sum(), a[::2], np.broadcast_to(a, (2, 4))


def broken(a):
    b = a * 2
    shout(end="")
    return b + 1


def failing(a, i):
    try:
        return a[i]
    except IndexError:
        return None


def filled(d, items):
    d["k"] = items[0] * 2
    items.append(d["k"])
    items.pop()
    return d


A = np.arange(4.0)
I, FAR = np.array([0, 2]), np.array([9])
CALLS = {
    "arrays and a float": (scaled, lambda f, n: f(A, float(n))),
    "graph break": (broken, lambda f, n: f(A)),
    "index": (failing, lambda f, n: f(A, I)),
    "index out of range": (failing, lambda f, n: f(A, FAR)),
    "side effects": (filled, lambda f, n: f({}, [A])),
}


def run(name, count, megabytes):
    function, call = CALLS[name]
    fast = cdynamo.optimize(function)
    for n in range(2000):
        call(fast, n)
    gc.collect()
    memory, blocks = resident(), sys.getallocatedblocks()
    for n in range(count):
        call(fast, n)
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 200
    assert resident() - memory < megabytes * 2**20


@pytest.mark.parametrize("name", CALLS)
def test_ten_thousand_calls(name):
    run(name, 10_000, 2)


@pytest.mark.long
@pytest.mark.parametrize("name", CALLS)
def test_a_million_calls(name):
    run(name, 1_000_000, 2)


def test_reset_frees_what_was_compiled():
    class Held:
        scale = 3.0

    def make():
        held = Held()
        return (lambda a: a * held.scale), weakref.ref(held)

    function, alive = make()
    fast = cdynamo.optimize(function)
    np.testing.assert_array_equal(fast(A), A * 3.0)
    del function, fast
    cdynamo.reset()
    gc.collect()
    assert alive() is None
