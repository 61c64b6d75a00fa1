"""x.flat as an iterator, numpy.ndenumerate and numpy.ndindex."""

from __future__ import annotations

import numpy as np
import pytest

import cdynamo


def enumerated(a):
    return sum(i * j * v for (i, j), v in np.ndenumerate(a)), [index for index, _ in np.ndenumerate(a)]


def written(a):
    b = np.zeros_like(a)
    for index, value in np.ndenumerate(a):
        b[index] = value * sum(index)
    return b, [(i, type(v).__name__) for i, v in np.ndenumerate(a.T)][-2:]


def of_lists(a):
    return a + 1, [(index, int(v)) for index, v in np.ndenumerate([[1, 2], [3, 4]])]


def indexed(a):
    return [a[index] * 2 for index in np.ndindex(a.shape)], list(np.ndindex(2, 0)), list(np.ndindex(()))


def places(a):
    f = a.flat
    found = [f.index, f.coords, next(f), f.index, f.coords]
    next(f)
    found += [f[-1], f.index, f.coords]
    for _ in f:
        pass
    found += [f.index, f.coords, list(f), len(f), next(f, None)]
    f[0]
    return *found, [v + 0 for v in f], f.base is a


def written_between(a):
    b = a.copy()
    f = b.flat
    next(f)
    next(f)
    f[3] = 9.0
    return b, next(f), f.index, iter(f) is f


def last_dims(a):
    f = a[:, None, ::2].flat
    next(f)
    next(f)
    next(f)
    return f.coords, next(f), f.index


@pytest.mark.parametrize(
    "program", [enumerated, written, of_lists, indexed, places, written_between, last_dims], ids=lambda f: f.__name__
)
def test_iteration(program):
    fast = cdynamo.optimize(program, fullgraph=True)
    for shape in ((2, 3), (3, 4), (2, 3)):
        a = np.arange(np.prod(shape), dtype=float).reshape(shape) + 0.5
        assert_same(fast(a.copy()), program(a.copy()))


def assert_same(got, expected):
    assert type(got) is type(expected)
    if isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(got, expected)
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for mine, theirs in zip(got, expected):
            assert_same(mine, theirs)
    else:
        assert got == expected


def test_an_iterator_leaves_where_it_is():
    def program(a):
        f = a.flat
        first = next(f)
        next(f)
        return first + a, f

    fast = cdynamo.optimize(program)
    for _ in range(3):
        a = np.arange(6.0).reshape(2, 3)
        f = fast(a)[1]
        assert f.index == 2 and list(f) == [2.0, 3.0, 4.0, 5.0] and f.base is a


def test_flat_of_a_scalar_begins_anew_in_each_call():
    def f(s):
        return [v for v in s.flat], next(s.flat)

    compiled = cdynamo.optimize(f)
    for number in (15.0, 15.0, 16.0, 16.0):
        assert compiled(np.float64(number)) == f(np.float64(number))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("key", [True, False, [True, False] * 3, [[True] * 6], [1, 0], []], ids=str)
def test_bools_as_indices(key):
    """A bool is an index here, and not a mask of a new axis."""

    def f(a):
        b = a.copy()
        b.flat[key] = 7
        return a.flat[key], b

    a = np.arange(6.0).reshape(2, 3)
    try:
        expected = f(a)
    except (IndexError, ValueError) as error:
        with pytest.raises(type(error)):
            cdynamo.optimize(f)(a)
        return
    for ours, plain in zip(cdynamo.optimize(f)(a), expected):
        assert type(ours) is type(plain)
        np.testing.assert_array_equal(ours, plain, strict=True)
