"""Results of NumPy programs compared, nested ones too: types, numbers, layouts."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_same(got: Any, expected: Any, rtol: float = 1e-12, atol: float = 0) -> None:
    assert type(got) is type(expected)
    if isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other, rtol, atol)
        return
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)
    if isinstance(expected, (np.ndarray, np.generic)):
        assert got.dtype == expected.dtype
    if isinstance(expected, np.ndarray):
        assert (got.shape, got.strides, got.flags.writeable) == (
            expected.shape,
            expected.strides,
            expected.flags.writeable,
        )
