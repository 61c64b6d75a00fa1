"""NumPy rounds a running sum or product at each step, in order: the same bits, and infinities where the dtype's range ends."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import cdynamo

pytestmark = pytest.mark.native

SCANS = (np.cumsum, np.cumprod)
SHAPES = [(1,), (1000,), (0,), (10, 100), (100, 10), (3, 7, 5), (40000,)]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_bits(dtype):
    random = np.random.default_rng(0)
    for shape, scan in itertools.product(SHAPES, SCANS):
        x = (random.normal(size=shape) * 1.5).astype(dtype)
        for axis in (None, *range(len(shape))):
            got = cdynamo.optimize(lambda x, scan=scan, axis=axis: scan(x, axis=axis))(x)
            np.testing.assert_array_equal(got, scan(x, axis=axis), strict=True)


def test_beyond_the_range():
    x = np.array([1e30, 1e30, 1e-30, 1e-30], np.float32)
    y = np.array([60000, 60000, -60000], np.float16)
    f = cdynamo.optimize(lambda x, y: (np.cumprod(x), y.cumsum(), (y * 1).cumsum()))
    with np.errstate(over="ignore"):
        for got, wanted in zip(f(x, y), (x.cumprod(), y.cumsum(), y.cumsum()), strict=True):
            np.testing.assert_array_equal(got, wanted, strict=True)


def test_ones_stop_where_one_more_is_rounded_away():
    ones = np.ones((5000, 2), np.float16)
    for axis in (0, None):
        f = cdynamo.optimize(lambda x, axis=axis: np.cumsum(x, axis))
        assert f(ones).max() == np.cumsum(ones, axis).max() == 2048
    assert cdynamo.optimize(lambda x: np.cumsum(x, 0, dtype=np.float32))(ones).max() == 5000


def test_complex_numbers():
    z = (np.random.default_rng(1).normal(size=(50, 2)).astype(np.float32)).view(np.complex64)
    np.testing.assert_array_equal(
        cdynamo.optimize(lambda z: np.cumsum(z, axis=0))(z), np.cumsum(z, axis=0), strict=True
    )
