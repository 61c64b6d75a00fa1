"""NumPy's functions that graphs call in NumPy's library: one graph, NumPy's results, types, layouts and errors."""

from __future__ import annotations

import functools

import numpy as np
import numpy_check
import pytest

import cdynamo

A = np.random.default_rng(0).standard_normal((5, 3))
SQUARE = A.T @ A + np.eye(3)


assert_same = functools.partial(numpy_check.assert_same, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "function",
    [
        lambda a: np.linalg.svd(a * 2, full_matrices=False),
        lambda a: np.linalg.svd(a, compute_uv=False),
        lambda a: np.linalg.qr(a),
        lambda a: np.linalg.eigh(a.T @ a).eigenvalues,
        lambda a: np.linalg.inv(a.T @ a + np.eye(3)) @ a.T,
        lambda a: np.linalg.solve(a.T @ a + np.eye(3), np.ones(3)),
        lambda a: np.linalg.lstsq(a, a[:, 0], rcond=None)[0],
        lambda a: (np.linalg.det(a[:3]), np.linalg.slogdet(a[:3]), np.linalg.cholesky(a.T @ a)),
        lambda a: (np.cov(a.T), np.corrcoef(a, rowvar=False)),
        lambda a: (np.sort(a, axis=0)[::-1], np.argsort(-a[:, 0]), a[:, 1].argsort(), np.lexsort((a[:, 0], a[:, 1]))),
        lambda a: (np.percentile(a, [25, 75], axis=0), np.median(a), np.quantile(a, 0.5)),
        lambda a: np.interp(0.3, np.sort(a[:, 0]), a[:, 1]),
        lambda a: (np.searchsorted(np.sort(a[:, 0]), a[:, 1]), np.digitize(a, [-1.0, 0.0, 1.0])),
        lambda a: np.histogram(a, bins=4, range=(-1, 1)),
        lambda a: np.einsum("ij,kj->ik", a, a),
        lambda a: (np.convolve(a[:, 0], [1, 2, 1], "same"), np.polyfit(a[:, 0], a[:, 1], 1)),
        lambda a: np.select([a > 0.5, a > 0], [a, 2 * a], -1.0),
        lambda a: (np.maximum.accumulate(a, axis=1), np.subtract.outer(a[0], a[1]), np.add.reduceat(a, [0, 2])),
        lambda a: np.unravel_index(a.argmax(), a.shape),
        lambda a: a[np.argsort(a[:, 0])][:2],
    ],
)
def test_one_graph(function, counts):
    compiled = cdynamo.optimize(function, fullgraph=True)
    for scale in (1.0, -2.0, 3.0):
        given = A * scale
        assert_same(compiled(given.copy()), function(given.copy()))
    assert counts.graphs_compiled == 1


def test_sorting_in_place(counts):
    def function(a, b):
        a.sort(axis=0)
        b.partition(2)
        return a * 2

    compiled, results = cdynamo.optimize(function, fullgraph=True), []
    for run in (function, compiled):
        a, b = A.copy(), A[:, 1].copy()
        results.append((run(a, b), a, np.sort(b[:3])))
    assert_same(results[1], results[0])


def test_errors_are_numpys():
    function = lambda a: np.linalg.inv(a) + 1  # noqa: E731
    compiled = cdynamo.optimize(function)
    assert_same(compiled(SQUARE), function(SQUARE))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        compiled(np.zeros((3, 3)))
    assert_same(compiled(SQUARE), function(SQUARE))


def test_sizes_that_turn_out_to_depend_on_data(counts):
    def function(a, b):
        return np.linalg.lstsq(a, b, rcond=None)[1] * 2  # nothing where a's columns depend on each other

    compiled = cdynamo.optimize(function)
    flat = np.ones((5, 3))
    for a in (A, flat, A, flat):
        assert_same(compiled(a, A[:, 0]), function(a, A[:, 0]))


def test_other_orders_of_elements():
    function = lambda a: np.sort(a, axis=0)  # noqa: E731
    for given in (np.asfortranarray(A), A[::-1], A[:, ::2], A.T):
        cdynamo.reset()  # sizes that change from call to call are left to Python
        assert_same(cdynamo.optimize(function, fullgraph=True)(given), function(given))


NOTHING = {
    "new": np.ones((3, 0)),
    "part of rows": A[:3, :0],
    "part of columns": np.asfortranarray(A)[:3, :0],
    "three dims": np.ones((2, 0, 3))[0].T,
}


@pytest.mark.parametrize("name", NOTHING)
@pytest.mark.parametrize("order", ["C", "F"])
def test_order_of_what_is_joined_with_nothing(name, order):
    """A new array of nothing has strides of 0 in NumPy, which speak for row-major order."""

    def function(a, nothing):
        made, parts = nothing * 2, (nothing.T, np.zeros((0, 4)), a[:0])
        joined = np.hstack([a, nothing]), np.concatenate([made, a], 1), np.append(a, made.copy(), 1)
        stacked = np.vstack([np.empty((0, 4)), a]), np.concatenate([a[:0], a]), np.stack([a.T, a.T])
        cast = np.concatenate([made.astype("f4"), a.astype("f4")], 1)
        return *joined, *stacked, cast, made, made.T, *parts, np.broadcast_to(made[:, None], (3, 2, 0))

    a = np.asarray(np.arange(12.0).reshape(3, 4), order=order)
    for got, expected in zip(
        cdynamo.optimize(function, fullgraph=True)(a, NOTHING[name]), function(a, NOTHING[name]), strict=True
    ):
        assert_same(got, expected)
        assert got.strides == expected.strides


def test_joined_with_what_is_expanded():
    function = lambda a, b: (np.concatenate([a, b]), np.concatenate([b.T, a.T], 1), np.add(a, b))  # noqa: E731
    for a in (np.asfortranarray(A[:3]), A[:3]):
        for b in (np.broadcast_to(A[:1], a.shape), np.broadcast_to(A[:3, :1], a.shape)):
            for got, expected in zip(cdynamo.optimize(function)(a, b), function(a, b), strict=True):
                assert_same(got, expected)


def test_beside_torch():
    torch = pytest.importorskip("torch")

    def function(x):
        u, s, v = np.linalg.svd(x.numpy(), full_matrices=False)
        return torch.from_numpy(u * s) @ torch.from_numpy(v) + x

    x = torch.from_numpy(A.copy())
    torch.testing.assert_close(cdynamo.optimize(function, fullgraph=True)(x), 2 * x)


def test_no_derivative_is_left_out():
    with pytest.raises(cdynamo.GraphBreakError, match="CD05"):
        cdynamo.optimize(cdynamo.grad(lambda a: np.sort(a, axis=0)[0].sum()), fullgraph=True)(A)


def test_writes_by_functions(counts):
    def function(a, i):
        np.add.at(a, [0, 0, 2], 1.0)
        np.put_along_axis(a, i, 9.0, axis=1)
        np.fill_diagonal(a[:3], -1.0)
        return a * 2

    compiled, results = cdynamo.optimize(function, fullgraph=True), []
    for run in (function, compiled):
        a = A.copy()
        results.append((run(a, np.array([[0], [1], [2], [0], [1]])), a))
    assert_same(results[1], results[0])


@pytest.mark.native
@pytest.mark.parametrize("values", [[3, 1, 3, 2, 1], [2.5, np.nan, 1.0, np.nan, 2.5], [[True, False], [True, True]]])
def test_unique(values):
    function = lambda a: (np.unique(a), np.unique(a, return_counts=True), np.meshgrid(a[0], a[1])[1])  # noqa: E731
    given = np.array(values)
    compiled = cdynamo.optimize(function, fullgraph=True)
    for array in (given, given[::-1].copy()):
        assert_same(compiled(array), function(array))


@pytest.mark.native
def test_ends_that_the_graph_knows(counts):
    def function(a):
        k = np.argmax(a[:, 0])
        return a[:k].sum(), np.linspace(a[0, 0], a[0, 1], 4), k + 1

    compiled = cdynamo.optimize(function, fullgraph=True)
    for scale in (1.0, 2.0):
        assert_same(compiled(A * scale), function(A * scale))
    assert counts.graphs_compiled == 1


def test_sizes_that_change():
    function = lambda a: np.sort(a, axis=0) * 2  # noqa: E731
    whole, pieces = cdynamo.optimize(function, fullgraph=True), cdynamo.optimize(function)
    for n in (2, 3, 5, 4):
        assert_same(whole(A[:n].copy()), function(A[:n].copy()))
        assert_same(pieces(A[:n].copy()), function(A[:n].copy()))


def test_arrays_with_gaps_are_neither_row_major_nor_column_major():
    def function(a):
        return np.pad(a[1:], ((1, 0), (0, 1))), np.pad(a[1:], 1, mode="edge"), np.pad(a, ((1, 0), (0, 1)))

    compiled = cdynamo.optimize(function)
    for array in (np.arange(12.0).reshape(4, 3).T, np.arange(12.0).reshape(3, 4), np.arange(24.0).reshape(4, 6).T[::2]):
        assert_same(compiled(array), function(array))


def test_an_error_leaves_numpys_error_state_alone():
    f = cdynamo.optimize(lambda x: np.linalg.inv(x))
    f(np.eye(3)), f(np.eye(3) * 2)
    before = np.geterr()
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        f(np.zeros((3, 3)))
    assert np.geterr() == before


def test_every_kind_of_operand_and_result():
    """Arrays, scalars, numbers, complex ones; results with gaps and in column-major order; tuples of them."""

    def f(x, z, n):
        return (
            np.gcd(n, n[0]), np.frexp(x.T), np.modf(x[0, 0]), np.interp(x[0, 0], x[0], x[1]), np.sort(x.T, axis=0),
            np.fft.fft(z), np.fft.ifft(z[::2]), np.linalg.eigvalsh(x @ x.T), np.convolve(x[0], x[1, ::-1], mode="same"),
        )  # fmt: skip

    rng = np.random.default_rng(0)
    given = rng.standard_normal((3, 5)), rng.standard_normal(8) + 1j, np.arange(1, 9)
    g = cdynamo.optimize(f, fullgraph=True)
    for _ in range(3):
        assert_same(g(*given), f(*given), rtol=1e-9, atol=1e-12)
