"""NumPy's functions of which only data say how much they give, eigenvalues that may be complex, functions applied to parts of
arrays, layouts that are asked for, and checks of numpy.testing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_check import assert_same, in_one_graph

import cdynamo

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 6))
N = RNG.integers(-2, 3, (4, 6))
SQUARE = RNG.standard_normal((4, 4))


def sets(x, n):
    a, b = n[0], n[1:]
    return (
        np.intersect1d(a, b), np.intersect1d(x[0], x[:2], return_indices=True), np.setdiff1d(b, [0, 1]),
        np.setxor1d(x[0], x[:2]), np.union1d(a, b),
    )  # fmt: skip


def unique_along_an_axis(x, n):
    return (
        np.unique(n % 2, axis=0), np.unique(n, axis=1, return_counts=True), np.unique(x, axis=-1),
        np.unique(n % 2, axis=0, return_index=True, return_inverse=True, return_counts=True),
    )  # fmt: skip


def pieces(x, n):
    v = x.ravel()
    return np.piecewise(v, [v < -0.5, v > 0.5], [lambda t: -t, lambda t: t * t, 0.25]), np.piecewise(
        v, [v < 0], [-1, 1]
    )


def along_an_axis(x, n):
    return (
        np.apply_along_axis(lambda row: row.sum(), 1, x),
        np.apply_along_axis(lambda column: column * 2 + column[0], 0, x),
        np.apply_along_axis(lambda row: np.array([row.min(), row.max()]), 1, x),
    )


def coordinates(x, n):
    return (
        np.gradient(x[0], np.arange(6.0) ** 2), np.gradient(x, np.arange(4.0), np.arange(6.0) ** 1.5, edge_order=2),
        np.gradient(x, 0.5, axis=1), np.gradient(x),
    )  # fmt: skip


def insertions(x, n):
    return np.insert(x[0], 1, 5.0), np.insert(n[0], -1, 2.7), np.insert(x, 1, 0, axis=1), np.delete(x, [0, -1], axis=0)


def layouts(x, n):
    return (
        np.array(x, ndmin=3), np.array(x.T, ndmin=4), np.asarray(x, order="F"), np.array(x, order="F"), np.c_[x, x[:, 0]],
        np.r_["0,2", x[0], x[0]], np.zeros_like(x, shape=(2, 3, 2)), np.ones_like(n, shape=(5,)), np.require(x, requirements="F"),
    )  # fmt: skip


def several_outputs(x, n):
    whole, fraction = np.empty_like(x), np.empty_like(x)
    results = np.modf(x, out=(fraction, whole))
    quotient = np.empty_like(n)
    both = np.divmod(n, 3, out=(quotient, None))
    return whole, fraction, quotient, results[0] is fraction, both


def options_of_reductions(x, n):
    return (
        np.maximum.reduce(x, axis=1, initial=0.0),
        np.add.reduce(x, where=x > 0),
        np.average(x, axis=0, returned=True),
    )


def of_shapes(x, n):
    return (
        np.broadcast_shapes(x.shape, (3, 1, 6)), np.broadcast_arrays(x, n), np.array_equiv(x, x[None]), np.size(x, 1),
        np.can_cast(x.dtype, np.float32), np.ediff1d(x[0], to_end=1.0), np.linspace(0, 1, 5, retstep=True),
        np.ravel_multi_index(([0, 1], [1, 2]), (2, 3)), np.roots([1.0, -3.0, 2.0]),
    )  # fmt: skip


def other_cases_of_operators(x, n):
    return (
        np.around(n * 7, -1), np.take(x, [0, 9], axis=1, mode="wrap"), np.linalg.cross(x[:, :3], x[:, 3:]), np.i0(x[0]),
        x[0].__truediv__(x[1]), x.__add__(1.0),
    )  # fmt: skip


def from_iterators(x, n):
    return np.fromiter((i * i for i in range(5)), float), np.fromiter([1, 2, 3], int, count=2)


def items(x, n):
    return x.item(3), x.item(1, 2), x.item((0, -1)), x[0].item(-2), np.array([4]).item()


def checked(x, n):
    np.testing.assert_allclose(x, x + 1e-12)
    np.testing.assert_array_equal(n, n + 0.0)
    return x * 2


READS_DATA = [sets, unique_along_an_axis, pieces, insertions, of_shapes, items, checked]
PROGRAMS = [
    sets, unique_along_an_axis, pieces, along_an_axis, coordinates, insertions, layouts, several_outputs, options_of_reductions,
    of_shapes, other_cases_of_operators, from_iterators, items, checked,
]  # fmt: skip


@pytest.mark.parametrize("program", in_one_graph(PROGRAMS, READS_DATA))
@pytest.mark.parametrize("given", [(X, N), (np.asfortranarray(X), N[::-1]), (X[:, ::-1], np.asfortranarray(N))])
def test_results_are_numpys(program, given):
    compiled = cdynamo.optimize(program, fullgraph=True)
    for _ in range(2):
        assert_same(compiled(*given), program(*given), rtol=1e-9)


def test_eigenvalues_are_real_or_complex(counts):
    """Which, only data say: after a call that is foreseen wrongly the graph has what was seen."""
    symmetric = SQUARE + SQUARE.T
    for function in (np.linalg.eigvals, lambda a: np.linalg.eig(a).eigenvalues, lambda a: np.linalg.eig(a)[1]):
        compiled = cdynamo.optimize(lambda a, function=function: function(a * 2.0) * 2)
        for matrix in (symmetric, SQUARE, symmetric, SQUARE, SQUARE, symmetric, SQUARE):
            for _ in range(2):
                assert_same(compiled(matrix), function(matrix * 2.0) * 2, rtol=1e-9, atol=1e-12)


def test_sets_that_are_empty():
    compiled = cdynamo.optimize(lambda a, b: (np.intersect1d(a, b), np.setdiff1d(a, b), np.setxor1d(a, b)))
    for a, b in [([1, 2], [3]), ([1], [1]), ([1, 2, 3], [2, 3, 4])] * 6:
        given = np.array(a), np.array(b)
        expected = np.intersect1d(*given), np.setdiff1d(*given), np.setxor1d(*given)
        assert_same(compiled(*given), expected)


def test_pieces_that_nothing_falls_into():
    compiled = cdynamo.optimize(lambda v: np.piecewise(v, [v < 0, v >= 0], [lambda t: -t, lambda t: t + 1]))
    for v in [np.arange(4.0), -np.arange(1.0, 5.0), np.array([-1.0, 2.0])] * 4:
        assert_same(compiled(v), np.piecewise(v, [v < 0, v >= 0], [lambda t: -t, lambda t: t + 1]))


def test_what_is_wrong_is_said_by_numpy():
    def same(x, y):
        np.testing.assert_allclose(x, y)
        return x + y

    compiled = cdynamo.optimize(same)
    for _ in range(2):
        assert_same(compiled(X, X), X + X)
        with pytest.raises(AssertionError, match="Not equal to tolerance") as got:
            compiled(X, X + 1)
        with pytest.raises(AssertionError) as expected:
            same(X, X + 1)
        assert str(got.value) == str(expected.value)
        with pytest.raises(AssertionError, match="shapes"):
            compiled(X, X[:2])


def test_errors_are_numpys():
    short = cdynamo.optimize(lambda x: x + np.fromiter([1.0, 2.0], float, count=3))
    with pytest.raises(ValueError, match="iterator too short"):
        short(X[0, :3])
    beyond = cdynamo.optimize(lambda x: x.item(100))
    with pytest.raises(IndexError):
        beyond(X)


@pytest.mark.parametrize("axis", [0, 1, -3, None])
@pytest.mark.parametrize("counts", [np.arange(0), np.arange(1), np.arange(2)])
@pytest.mark.parametrize("x", [np.float64(2), np.ones(()), np.ones(2), np.ones((2, 2))])
def test_errors_of_repeat(x, counts, axis):
    def f(x):
        try:
            return np.repeat(x, counts, axis=axis).tolist()
        except ValueError as error:
            return type(error), str(error)

    assert cdynamo.optimize(f)(x) == f(x)
