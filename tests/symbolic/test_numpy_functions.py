"""NumPy's functions and methods beyond the operator table: orders, masks, what reads data, what its library computes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_check import assert_same, in_one_graph

import cdynamo


def orders(x):
    return (
        x.ravel("F"), x.ravel(order="F"), x.flatten("F"), x.flatten("C"), x.copy("F"), x.copy(order="F"), x.copy("K"), x.T.ravel("F"),
        x.T.ravel("C"), np.ravel(x, "F"), np.ravel(x, order="F"), np.reshape(x, -1, order="F"), x.reshape((2, -1), order="F"),
        np.copy(x, "F"), np.copy(x), np.asfortranarray(x), x[..., ::2].ravel("F"), x[..., ::2].flatten("F"),
    )  # fmt: skip


def flags(x):
    y = np.asfortranarray(x)
    return [
        (a.flags.contiguous, a.flags.fnc, a.flags.forc, a.flags.c_contiguous, a.flags.f_contiguous)
        for a in (x, y, x[:, ::2])
    ]


def masks_of_ufuncs(x):
    out, other = np.zeros_like(x), x.copy()
    np.log(x, where=x > 0, out=out)
    np.add(x, 1, where=x[:, :1] > 0, out=other)
    return out, other, np.sqrt(x, out=np.full(x.shape, -1.0), where=x > 0.5)


def masks_of_reductions(x):
    return (
        np.sum(x, where=x > 0),
        np.mean(x, axis=0, where=x > -9),
        np.max(x, where=x > 0, initial=0),
        np.all(x > 0, where=x > 1),
    )


def copies_by_a_mask(x):
    np.copyto(x, 0.0, where=x < -1)
    y = np.zeros_like(x)
    np.copyto(y, x, where=x > 0)
    np.copyto(y, -x[0])
    np.copyto(x, np.float64(2.5), where=x > 3)
    np.copyto(y[0], np.int64(2))
    return y, np.nancumsum(x), np.nansum(x), np.nan_to_num(y, copy=False) is y


def ufuncs_of_the_library(x):
    n = np.floor(x * 10).astype(np.int64)
    return (
        np.modf(x), np.frexp(x), np.nextafter(x, 0), np.ldexp(x, 2), np.heaviside(x, 0.5), np.gcd(n, 4), np.lcm(n, 3),
        np.tensordot(x, x, axes=([0], [0])), np.pad(x, ((1, 0), (0, 2)), mode="edge"), np.pad(x, 1, mode="reflect"), np.nanargmax(x),
    )  # fmt: skip


def sequences_for_arrays(x):
    x.put([0, 3], [7.0, 8.0])
    return x.take([0, 1], axis=0), x.take([[1], [0]], axis=1), np.transpose((x, x * 2)), np.argwhere(x > 0)


def parts(x):
    return np.delete(x, 1, axis=0), np.delete(x, -1, axis=1), np.ediff1d(x), np.ediff1d(x[0])


def counts(x):
    n = np.abs(np.rint(x * 2)).astype(np.int64).ravel()
    return (
        np.bincount(n),
        np.bincount(n, minlength=20),
        np.bincount(n, x.ravel()),
        np.bincount(n, weights=n),
        np.bincount(n.astype(np.uint8)),
    )


def repeats(x):
    n = np.abs(np.rint(x[:, 0])).astype(np.int64) + 1
    return np.repeat(x, n, axis=0), np.repeat(n, n), np.repeat(x, 2), np.repeat(x, 2, axis=1)


def unique_with_more(x):
    n = np.rint(x)
    return (
        np.unique(n, return_inverse=True), np.unique(n, return_index=True), np.unique(n, return_counts=True),
        np.unique(n, return_index=True, return_inverse=True, return_counts=True),
    )  # fmt: skip


def compressed(x):
    return (
        np.compress(x[:, 0] > 0, x, axis=0),
        x.compress(x[:, 0] > 0, axis=0),
        np.extract(x > 0, x),
        np.compress([True, False, True], x, axis=0),
    )


def sizes_that_are_read(x):
    n = np.count_nonzero(x > 0)
    return np.zeros(n), np.zeros((n, 2)), np.ones(x[:, 0].argmax() + 2)


PROGRAMS = [
    orders, flags, masks_of_ufuncs, masks_of_reductions, copies_by_a_mask, ufuncs_of_the_library, sequences_for_arrays, parts, counts, repeats,
    unique_with_more, compressed, sizes_that_are_read,
]  # fmt: skip
READS_DATA = (
    counts,
    repeats,
    unique_with_more,
    compressed,
    sizes_that_are_read,
    sequences_for_arrays,
    ufuncs_of_the_library,
)


def example(seed):
    return np.random.default_rng(seed).standard_normal((4, 6))


def check(program, fullgraph):
    compiled = cdynamo.optimize(program, fullgraph=fullgraph)
    for seed in range(4):
        ours, numpys = example(seed), example(seed)
        assert_same(compiled(ours), program(numpys))
        np.testing.assert_array_equal(ours, numpys)


@pytest.mark.parametrize("program", in_one_graph(PROGRAMS, READS_DATA), ids=lambda program: program.__name__)
def test_results_and_writes_are_numpys(program):
    check(program, fullgraph=True)


@pytest.mark.parametrize("program", READS_DATA, ids=lambda program: program.__name__)
def test_results_where_a_backend_in_python_breaks_the_graph(program):
    check(program, fullgraph=False)


def test_column_order_is_a_view_where_numpy_gives_one():
    def views(x):
        return (
            x.ravel("F"),
            x.T.ravel("F"),
            x.reshape((2, -1), order="F"),
            x.T.reshape(-1, order="F"),
            np.asfortranarray(x.T),
        )

    x = example(0)
    for got, expected in zip(cdynamo.optimize(views, fullgraph=True)(x), views(x)):
        assert np.shares_memory(got, x) == np.shares_memory(expected, x)


def test_sizes_that_change_are_compiled_once():
    def made(x):
        n = x.shape[0]
        whole = np.arange(n), np.arange(1, n, 2), np.arange(0, n, dtype=int), np.arange(n, dtype=np.int64)
        return *whole, np.arange(n, dtype=float), np.full(x.shape, 2.5), np.arange(n) + x

    compiled = cdynamo.optimize(made, fullgraph=True)
    before = cdynamo.counters()["graphs_compiled"]
    for n in (4, 4, 7, 9, 12):
        assert_same(compiled(np.ones(n)), made(np.ones(n)))
    assert cdynamo.counters()["graphs_compiled"] - before <= 2


@pytest.mark.skipif(np.__version__.startswith("1."), reason="NumPy 1 has no device=")
def test_where_arrays_are_made_decides_nothing_on_the_cpu():
    def made(x):
        n = x.shape[0]
        arrays = np.zeros(n, device="cpu"), np.ones((n, 2), device=None), np.full(n, 2.5, device="cpu", like=None)
        return (
            *arrays,
            np.arange(n, device="cpu"),
            np.zeros_like(x, device="cpu"),
            np.fft.fftfreq(n),
            np.fft.rfftfreq(n),
        )

    compiled = cdynamo.optimize(made, fullgraph=True)
    for n in (4, 7, 8):
        assert_same(compiled(np.ones(n)), made(np.ones(n)))


@pytest.mark.parametrize("device", ["cuda", 0])
def test_another_device_is_numpys_error(device):
    with pytest.raises((TypeError, ValueError)) as expected:
        np.zeros(3, device=device)
    with pytest.raises(expected.type, match=str(expected.value)[:20]):
        cdynamo.optimize(lambda x: x + np.zeros(3, device=device))(np.ones(3))


@pytest.mark.skipif(not hasattr(np, "_CopyMode"), reason="this NumPy has no _CopyMode")
def test_copy_modes():
    def converted(x):
        if_needed, always, never = np._CopyMode.IF_NEEDED, np._CopyMode.ALWAYS, np._CopyMode.NEVER
        return (
            np.array(x, copy=if_needed),
            np.array(x, copy=always),
            np.array(x, copy=never),
            np.array(x, int, copy=if_needed),
        )

    x, y = example(0), example(0)
    for got, expected in zip(cdynamo.optimize(converted, fullgraph=True)(x), converted(y), strict=True):
        assert_same(got, expected)
        assert np.shares_memory(got, x) == np.shares_memory(expected, y)


def rolled(x, by):
    y = np.roll(x, by[0], 0), np.roll(x, by[1], axis=-1), np.roll(x, (by[0], by[1]), (0, 1)), np.roll(x, by[0])
    for i, (across, along) in enumerate(by[:2, None] * np.array([[1, 2]])):
        x[i] = np.roll(x[i], along, 0) + across
    return *y, np.roll(x, (by[0], 1), (1, 1)), np.roll(x, (by[0], -1), 0), np.roll(x, by[0], (0, 1)), x


@pytest.mark.native
@pytest.mark.parametrize("by", [(1, 2), (-7, 9), (0, 0)])
def test_a_roll_by_what_an_array_holds(by):
    compiled = cdynamo.optimize(rolled, fullgraph=True)
    for shape in ((3, 4), (5, 4), (2, 1)):
        x = np.random.rand(*shape)
        assert_same(compiled(x.copy(), np.array(by)), rolled(x.copy(), np.array(by)))


@pytest.mark.native
@pytest.mark.parametrize(
    "bad", [lambda n: np.bincount(n - 9), lambda n: np.repeat(n, n - 9)], ids=["bincount", "repeat"]
)
def test_negative_counts_are_numpys_error(bad):
    n = np.arange(5) + 9
    compiled = cdynamo.optimize(bad)
    assert_same(compiled(n), bad(n))
    with pytest.raises(ValueError, match="negative"):
        compiled(n - 3)


@pytest.mark.parametrize("backend", ["eager", lambda graph, inputs: graph.forward], ids=["eager", "callable"])
def test_a_conversion_that_changes_nothing_is_numpys_in_a_graph_for_a_backend(backend):
    def converted(x):
        return np.asarray(x, dtype=float) + 1, np.asanyarray(x, float) * 2, x.astype(float, copy=False) - 3

    x = example(0)
    assert_same(cdynamo.optimize(converted, backend=backend)(x), converted(x))


def test_a_ufunc_of_the_programs_runs_its_function_as_often_as_in_python():
    calls = []

    def twice(value):
        calls.append(value)
        return value * 2

    made = np.frompyfunc(twice, 1, 1)
    compiled = cdynamo.optimize(lambda x: made(x + 1).astype(float))
    for _ in range(2):
        np.testing.assert_array_equal(compiled(np.arange(3.0)), [2, 4, 6])
    assert calls == [1, 2, 3] * 2


def test_a_condition_of_more_dims_is_an_error():
    x = np.arange(6.0).reshape(2, 3)
    for compressed in (lambda x: np.compress(x > 1, x), lambda x: x.compress(x > 1), lambda x: np.compress(x[0, 0], x)):
        with pytest.raises(ValueError, match="condition must be a 1-d array"):
            cdynamo.optimize(compressed)(x)
