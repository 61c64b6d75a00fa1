"""NumPy's scalars as arguments: a value that changes becomes an input of the graph, an integer a size symbol."""

from __future__ import annotations

import numpy as np
import pytest

import cdynamo


def scaled(x, s):
    return np.sqrt(x) * s + 1, x.dtype, s


def of_scalars(x, s):
    t = s * s - 2
    return t, x - t, t / 3, np.exp(-s), abs(s)


def kept(x, s):
    y = np.full(3, s)
    return [y, y.dtype, x.sum() * s, {"s": s}]


def assert_same(got, expected):
    assert type(got) is type(expected)
    if isinstance(expected, (tuple, list)):
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, dict):
        assert_same(list(got.values()), list(expected.values()))
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=2e-3 if expected.dtype == np.float16 else 1e-6)
    else:
        assert got == expected


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("fn", [scaled, of_scalars, kept])
def test_compiled_at_most_twice(fn, dtype, backend):
    cdynamo.reset()
    compiled = cdynamo.optimize(fn, backend=backend)
    before = cdynamo.counters()
    x = np.arange(5, dtype=np.float32)
    for value in [1, 2.5, 0.0, -0.0, -3, 1e-3, np.inf, np.nan, 7]:
        with np.errstate(all="ignore"):
            assert_same(compiled(x, dtype(value)), fn(x, dtype(value)))
    after = cdynamo.counters()
    assert after["graph_breaks"] == before["graph_breaks"]
    assert after["graphs_compiled"] - before["graphs_compiled"] == 2


def test_other_types_are_compiled_apart():
    compiled = cdynamo.optimize(scaled)
    x = np.arange(5, dtype=np.float32)
    for value in (
        np.float32(1),
        np.float32(2),
        np.float64(2),
        np.float64(3),
        np.float16(3),
        2.0,
        np.int64(3),
        np.float32(5),
    ):
        assert_same(compiled(x, value), scaled(x, value))


def test_beside_torch():
    torch = pytest.importorskip("torch")

    def fn(t, s):
        return torch.from_numpy(t.numpy() * s), t * float(s)

    compiled = cdynamo.optimize(fn)
    t = torch.arange(4.0)
    for value in (1, 2, 3.5, -1):
        for got, expected in zip(compiled(t, np.float32(value)), fn(t, np.float32(value))):
            torch.testing.assert_close(got, expected)


def test_training_with_one():
    torch = pytest.importorskip("torch")

    def fn(w, a, s):
        return (w * torch.from_numpy(a * s)).sum()

    compiled = cdynamo.optimize(fn)
    a = np.arange(4, dtype=np.float32)
    for value in (1, 2, 3.5, -1):
        grads = []
        for f in (compiled, fn):
            w = torch.ones(4, requires_grad=True)
            f(w, a, np.float32(value)).backward()
            grads.append(w.grad)
        torch.testing.assert_close(*grads)


# ---- integers: indices, sizes, and numbers that decide


def indexes(x, n):
    return x[n] * 2, x[:n].sum() + x[n:].mean(), x[[n, 0]], x.reshape(-1, 2)[n // 2, -1]


def sizes(x, n):
    return np.zeros(n) + 1, np.ones((n, 2)), np.zeros(n * 2, dtype=x.dtype), x.reshape(x.shape[0] // 8, -1)


def arithmetic(x, n):
    m = n // 2 + 1
    return x * n, m, n - 1, n % 4, n**2, n << 1, n | 1, n / 4, n * 0.5, x.shape[0] * n, x.shape[0] // n, abs(n)


def conversions(x, n):
    return int(n), float(n), n.item(), range(n), n.dtype, n.shape, np.int64(n) + 1, np.sqrt(n), n.astype(np.float32)


def decides(x, n):
    y = x + 1 if n > 0 and n != 100 and n // 2 < 50 else x - 1
    return y, n == 100, n < x.shape[0] * 9, n == "auto", n == None, min(n, 100), max(100, n)  # noqa: E711


INTEGERS = [np.int64, np.int32, np.int16, np.int8, np.uint8]


@pytest.mark.native
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("fn", [indexes, sizes, arithmetic, conversions, decides])
def test_integers_are_compiled_at_most_twice(fn, dtype):
    cdynamo.reset()
    compiled = cdynamo.optimize(fn, backend="native", fullgraph=True)
    before = cdynamo.counters()
    x = np.arange(16, dtype=np.float32)
    for value in [3, 4, 5, 7, 2, 6, 7]:
        assert_same(compiled(x, dtype(value)), fn(x, dtype(value)))
    assert cdynamo.counters()["graphs_compiled"] - before["graphs_compiled"] <= 2


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("fn", [lambda x, n: (x + n, n * 100, n - 200), lambda x, n: (x[: n + 1], -n, n // (n - 5))])
def test_integers_that_overflow(fn, dtype):
    compiled = cdynamo.optimize(fn)
    x = np.arange(16, dtype=np.float32)
    for value in [1, 2, 3, 5, 100, 127, 4]:
        with np.errstate(all="ignore"):
            try:
                expected = fn(x, dtype(value))
            except OverflowError:  # of a number that the dtype does not hold
                with pytest.raises(OverflowError):
                    compiled(x, dtype(value))
            else:
                assert_same(compiled(x, dtype(value)), expected)


def test_integers_that_are_too_large_for_a_symbol():
    def fn(x, n):
        return x + n, n + 1

    compiled = cdynamo.optimize(fn)
    for value in [1, 2, 2**53, 2**53 + 1, 2**62, -(2**62), 3]:
        assert_same(compiled(np.arange(3), np.int64(value)), fn(np.arange(3), np.int64(value)))


@pytest.mark.native
def test_an_integer_decides_a_branch_once_for_each_way():
    def fn(x, n):
        return x[n:] if n > 5 else x[:n]

    cdynamo.reset()
    compiled = cdynamo.optimize(fn, backend="native", fullgraph=True)
    before = cdynamo.counters()
    x = np.arange(16.0)
    for value in [3, 4, 9, 5, 10, 2, 7]:
        np.testing.assert_array_equal(compiled(x, np.int64(value)), fn(x, np.int64(value)))
    assert cdynamo.counters()["graphs_compiled"] - before["graphs_compiled"] == 3


@pytest.mark.native
def test_an_integer_that_a_graph_break_hands_on():
    def fn(x):
        i = x.argmax()
        cdynamo.graph_break()
        return x[i] + x[: i + 1].sum(), i

    cdynamo.reset()
    compiled = cdynamo.optimize(fn)
    before = cdynamo.counters()
    for value in range(8):
        x = np.roll(np.arange(16.0), value)
        assert_same(compiled(x), fn(x))
    assert cdynamo.counters()["frames_compiled"] - before["frames_compiled"] <= 4


@pytest.mark.native
def test_integers_beside_sizes_that_change():
    def fn(x, n):
        return x[: x.shape[0] // n], x.shape[0] * n, n <= x.shape[0]

    cdynamo.reset()
    compiled = cdynamo.optimize(fn, backend="native", fullgraph=True)
    before = cdynamo.counters()
    for size in range(4, 12):
        assert_same(compiled(np.arange(size), np.int64(2)), fn(np.arange(size), np.int64(2)))
    assert cdynamo.counters()["graphs_compiled"] - before["graphs_compiled"] <= 2


@pytest.mark.native
def test_torch_takes_an_integer():
    torch = pytest.importorskip("torch")

    def fn(t, n):
        return t[n], t * n, t[:n], torch.zeros(n)

    cdynamo.reset()
    compiled = cdynamo.optimize(fn, backend="native", fullgraph=True)
    before = cdynamo.counters()
    t = torch.arange(16.0)
    for value in [3, 4, 5, 7]:
        for got, expected in zip(compiled(t, np.int64(value)), fn(t, np.int64(value)), strict=True):
            torch.testing.assert_close(got, expected)
    assert cdynamo.counters()["graphs_compiled"] - before["graphs_compiled"] <= 2


@pytest.mark.parametrize("backend", ["native", "eager", lambda gm, inputs: gm.forward])
def test_an_integer_made_of_one_that_changes_beside_arrays(backend):
    def program(n, x):
        a = np.int64(n) + x
        b = np.int64(len(x)) * x
        return a, b, np.int64(n) / 2 + x, x[np.int64(n) :]

    fast = cdynamo.optimize(program, backend=backend)
    for n in (1, 2, 3, -1):
        for x in (np.arange(4.0), np.arange(7)):
            for got, expected in zip(fast(n, x), program(n, x)):
                np.testing.assert_array_equal(got, expected)
                assert got.dtype == expected.dtype


@pytest.mark.parametrize("first", [(np.int64(0), 12), (1, 1)], ids=["numpy", "python"])
def test_an_int_of_python_is_none_of_numpy(first):
    """Where both have changed, each has a graph of its own, whose results are of its kind."""

    def product(x, by):
        return x * by, x

    cdynamo.config.keep_empty_graphs = True
    compiled = cdynamo.optimize(product)
    for x, by in [
        first,
        (1, 1),
        (4, 4),
        (np.int64(0), 12),
        (np.int64(3), 5),
        (7, 3),
        (np.int32(7), 3),
        (np.int64(9), 2),
    ]:
        got, want = compiled(x, by), product(x, by)
        assert got == want
        assert [type(item) for item in got] == [type(item) for item in want]
