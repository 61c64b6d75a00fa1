"""NumPy's scalars as arguments: a value that changes becomes an input of the graph."""

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
