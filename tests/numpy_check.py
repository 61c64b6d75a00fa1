"""NumPy programs: which run in one graph, and their results compared, nested ones too: types, numbers, layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest


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


def in_one_graph(programs: Sequence[Callable], reads_data: Sequence[Callable]) -> list:
    """Those that read data are one graph for the native backend alone."""
    return [pytest.param(each, marks=pytest.mark.native) if each in reads_data else each for each in programs]
