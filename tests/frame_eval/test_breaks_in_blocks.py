"""A break inside `with` or `try` leaves two graphs, whatever stands behind the block.

On 3.12 and later the code of exception handlers stands behind all other code: a handler that does not leave the function
goes back to what follows its block, which is no loop.
"""

from __future__ import annotations

import contextlib

import pytest

import cdynamo

np = pytest.importorskip("numpy")


def in_with(x):
    with contextlib.nullcontext():
        y = x * 2
        cdynamo.graph_break()
        z = y + 1
    w = z * x
    v = w - y
    return v, w, z, y


def in_two_withs(x):
    with contextlib.nullcontext(), contextlib.nullcontext():
        y = x * 2
        cdynamo.graph_break()
        z = y + 1
    with contextlib.nullcontext():
        w = z * x
    v = w - y
    return v, w, z, y


def in_try(x):
    try:
        y = x * 2
        cdynamo.graph_break()
        z = y + 1
    except ValueError:
        y = z = x
    w = z * x
    v = w - y
    return v, w, z, y


def in_try_finally(x):
    seen = []
    try:
        y = x * 2
        cdynamo.graph_break()
        z = y + 1
    except ValueError:
        y = z = x
    finally:
        seen.append(1)
    w = z * x
    v = w - y
    return v, w, z, seen[0] * y


@pytest.mark.parametrize("function", [in_with, in_two_withs, in_try, in_try_finally])
def test_two_graphs(function, counts):
    x = np.arange(1.0, 5.0)
    fast = cdynamo.optimize(function)
    for _ in range(2):
        for got, wanted in zip(fast(x), function(x), strict=True):
            np.testing.assert_array_equal(got, wanted)
    assert (counts.graphs_compiled, counts.graph_breaks) == (2, 1)


def in_with_in_a_loop(x):
    for k in range(3):
        with contextlib.nullcontext():
            x = x * 2
            cdynamo.graph_break()
            x = x + k
        x = x - 1
    return x + 1


def in_try_in_a_loop(x):
    for k in range(3):
        try:
            x = x * 2
            cdynamo.graph_break()
            if k == 1:
                raise ValueError
        except ValueError:
            x = x + 10
            continue
        x = x - 1
    return x + 1


def in_a_while_with_a_handler_that_repeats(x):
    tries = 0
    while True:
        try:
            x = x * 2
            cdynamo.graph_break()
            tries += 1
            if tries < 3:
                raise ValueError
            break
        except ValueError:
            x = x + 1
    return x + tries


@pytest.mark.parametrize("function", [in_with_in_a_loop, in_try_in_a_loop, in_a_while_with_a_handler_that_repeats])
def test_loops_are_left_as_a_whole(function):
    x = np.arange(1.0, 5.0)
    fast = cdynamo.optimize(function)
    for _ in range(2):
        np.testing.assert_array_equal(fast(x), function(x))
