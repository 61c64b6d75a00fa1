"""numpy.shares_memory and may_share_memory in captured code, and where Python has to say."""

from __future__ import annotations

import numpy as np
import pytest

import cdynamo


def of_views(a):
    b, c = a[1:], a.T
    return np.shares_memory(a, b), np.may_share_memory(c, a), np.shares_memory(a, a), np.may_share_memory(a.ravel(), a)


def of_results(a):
    b = a + 1
    c, d = b[0], a.copy()
    return (
        np.shares_memory(a, b),
        np.may_share_memory(b, c),
        np.shares_memory(a, c),
        np.shares_memory(d, a),
        np.shares_memory(b, d[1:]),
        np.shares_memory(np.zeros(3), a),
        np.shares_memory(np.array([1.0, 2.0]), b),
    )


def after_writes(a):
    b = a * 2
    view = b[1:]
    view[...] = 0
    a[0] = 3.0
    return np.shares_memory(b, view), np.shares_memory(a, view), np.shares_memory(a, a[1:]), b


def of_conversions(a):
    return np.shares_memory(np.asarray(a), a), np.shares_memory(np.array(a), a), np.shares_memory(a.astype("f4"), a)


def of_fancy_indices(a):
    return np.shares_memory(a[[0, 1]], a), np.shares_memory(np.where(a > 1, a, 0), a), np.shares_memory(np.sort(a), a)


@pytest.mark.parametrize("program", [of_views, of_results, after_writes, of_conversions, of_fancy_indices])
def test_what_is_certain(program):
    fast = cdynamo.optimize(program, fullgraph=True)
    for rows in (2, 3, 4):
        a = np.arange(rows * 3.0).reshape(rows, 3)
        got, expected = fast(a.copy()), program(a.copy())
        for mine, theirs in zip(got, expected):
            np.testing.assert_array_equal(mine, theirs)


def test_what_python_has_to_say():
    def two(a, b):
        return np.shares_memory(a, b), a + b

    def parts(a):
        return np.shares_memory(a[:2], a[2:]), np.shares_memory(a[:2], a[1:]), a + 1

    def empty(a):
        return np.shares_memory(a[:0], a), a + 1

    a = np.arange(8.0)
    fast = cdynamo.optimize(two)
    for pair in ((a[:4], a[4:]), (a[:4], a[2:6]), (a[:4], a[:4]), (a[::2], a[1::2])):
        assert fast(*pair)[0] == two(*pair)[0]
    for program in (parts, empty):
        fast = cdynamo.optimize(program)
        assert fast(a)[:-1] == program(a)[:-1] == fast(a)[:-1]
