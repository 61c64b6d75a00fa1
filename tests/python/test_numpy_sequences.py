"""NumPy's functions and operators with lists and tuples where arrays are wanted, and functions that NumPy writes in Python."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import cdynamo

X = np.array([0.5, -1.25, 3.0])
GRID = np.arange(12.0).reshape(3, 4)
POINTS = np.linspace(-1, 2, 24).reshape(12, 2) ** 3

PROGRAMS = {
    "concatenate with a list": lambda x: np.concatenate(([0], np.cumsum(x))),
    "concatenate with a tuple": lambda x: np.concatenate((x * 2, (1.5, 2))),
    "concatenate with items": lambda x: np.concatenate(([x[0] * 2, x[1]], x)),
    "concatenate with rows": lambda x: np.concatenate((np.outer(x, x), [[1, 2, 3]])),
    "concatenate along none": lambda x: np.concatenate((np.outer(x, x), [7]), axis=None),
    "stack with a list": lambda x: np.stack((x * 2, [1, 2, 3]), axis=1),
    "a list on the right": lambda x: (
        x + [1, 2, 3],
        x * (2, 0, 1),
        x / [1, 2, 4],
        x - [x[0], x[1], x[2]],
        x @ [1, 2, 3],
    ),
    "a list on the left": lambda x: ([1, 2, 3] + x, (2, 0, 1) * x, [1, 2, 4] / (x + 5), [2, 2, 2] ** x),
    "rows of a list": lambda x: x + [[1, 2, 3], [4, 5, 6]],
    "compared with a list": lambda x: (x > [1, 0, 0], [1, 0, 0] < x, x == (0.5, 1, 3), x != [0, 0, 0]),
    "bits with a list": lambda x: ((x > 0) & [True, False, True], [1, 0, 1] | (x > 0)),
    "repeat by a list": lambda x: np.repeat(x * 2, [1, 0, 2]),
    "repeat by a constant": lambda x: np.repeat(np.outer(x, x), np.array([1, 0, 2]), axis=1),
    "fftfreq": lambda x: (np.fft.fftfreq(8, 0.1) * x[0], np.fft.rfftfreq(7) * x[1]),
    "union1d": lambda x: np.union1d(x, [7, 0.5]),
    "polyint": lambda x: np.polyint(x, k=1),
    "device": lambda x: np.zeros(3, device="cpu") + np.ones((3,), like=None) * x,
}


@pytest.mark.native
@pytest.mark.parametrize("name", PROGRAMS)
def test_sequences(name):
    if name == "device" and np.__version__.startswith("1."):
        pytest.skip("NumPy 1 has no devices")
    compiled = cdynamo.optimize(PROGRAMS[name], fullgraph=True)
    for x in (X, X[::-1], X.astype(np.float32)):
        assert_same(compiled(x), PROGRAMS[name](x))


@pytest.mark.parametrize("name", ["hstack", "vstack", "dstack", "column_stack", "stack", "concatenate"])
def test_what_has_no_items_is_no_sequence(name):
    join = getattr(np, name)
    for arrays in (
        lambda x: (x for _ in range(2)),
        lambda x: {0: x}.values(),
        lambda x: map(np.abs, [x]),
        lambda x: {1, 2},
    ):

        def function(x, arrays=arrays):
            return join(arrays(x))

        with pytest.raises(TypeError) as plain:
            function(X)
        with pytest.raises(TypeError) as compiled:
            cdynamo.optimize(function)(X)
        assert str(compiled.value) == str(plain.value)


def test_what_is_added_to_a_list_in_place():
    """CPython asks the array's + first, for lists have no operators of numbers."""

    def function(x):
        items, queue, kept = [1, 2, 3], collections.deque([1, 2, 3]), [1]
        items += x
        queue += x
        same = kept
        kept += (x[0], 2)
        x += [1, 1, 1]
        return items, queue, kept, same is kept

    ours, theirs = X.copy(), X.copy()
    assert_same(cdynamo.optimize(function)(ours), function(theirs))
    assert_same(ours, theirs)


def test_scalars_and_lists():
    def function(x):
        items = [1, 2]
        items += x[0]
        return np.int64(2) * [1, 2], items, [1.0] + x.sum(), 3 * [x[0]]

    assert_same(cdynamo.optimize(function)(X), function(X))


HISTOGRAMS = {
    "2d": lambda p: np.histogram2d(p[:, 0], p[:, 1], 3),
    "2d of given ranges": lambda p: np.histogram2d(p[:, 0], p[:, 1], (3, 4), [[0, 1], [0, 2]]),
    "2d with weights": lambda p: np.histogram2d(p[:, 0], p[:, 1], 3, weights=p[:, 0] ** 2),
    "2d density": lambda p: np.histogram2d(p[:, 0], p[:, 1], 3, density=True),
    "dd": lambda p: np.histogramdd(p, bins=(2, 5)),
    "dd of columns": lambda p: np.histogramdd([p[:, 0], p[:, 1], p[:, 0]], 2),
}


@pytest.mark.native
@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms(name):
    compiled = cdynamo.optimize(HISTOGRAMS[name], fullgraph=True)
    for points in (POINTS, POINTS[::-1], POINTS[:7]):
        assert_same(compiled(points), HISTOGRAMS[name](points))


@pytest.mark.native
def test_branches_on_constants():
    def function(x):
        counts = np.array([1, 0, 2])
        if counts.min() < 0:
            raise ValueError("negative")
        return x * 2 if (counts.sum() > 2) and counts.any() else x

    assert_same(cdynamo.optimize(function, fullgraph=True)(X), function(X))


@pytest.mark.native
def test_a_constant_that_is_written_is_none():
    def function(x):
        counts = np.array([1, 0, 2])
        counts[1] = x.shape[0] - 4
        counts[0] += int(x[0])
        return x * 2 if counts.min() < 0 else x

    assert_same(cdynamo.optimize(function)(X), function(X))


def assert_same(got, expected):
    assert type(got) is type(expected)
    if isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for ours, theirs in zip(got, expected):
            assert_same(ours, theirs)
        return
    if not isinstance(expected, (np.ndarray, np.generic)):
        assert got == expected
        return
    assert got.dtype == expected.dtype and got.shape == expected.shape and got.strides == expected.strides
    np.testing.assert_allclose(got, expected, rtol=1e-6)
