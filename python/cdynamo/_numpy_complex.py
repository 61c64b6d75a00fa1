"""NumPy's complex arrays at the edges of a graph of real ones: each stands there as its pairs, real and imaginary
parts along one more dim."""

from __future__ import annotations

import numpy as np

_COMPLEX = {np.dtype(np.float32): np.dtype(np.complex64), np.dtype(np.float64): np.dtype(np.complex128)}
_PART = {of_both: part for part, of_both in _COMPLEX.items()}


def complex_dtype(part: np.dtype) -> np.dtype:
    """The dtype of the complex numbers whose parts are of dtype `part`."""
    return _COMPLEX[part]


def complex_array(pairs: np.ndarray) -> np.ndarray:
    """The complex array over the memory of `pairs`."""
    return pairs.view(_COMPLEX[pairs.dtype])[..., 0]


def complex_scalar(pairs: np.ndarray) -> np.generic:
    return complex_array(pairs)[()]


def pairs_of(array: np.ndarray) -> np.ndarray:
    """The array itself, or, where it is complex, its pairs over its memory."""
    return array[..., None].view(_PART[array.dtype]) if array.dtype in _PART else array


class MadePairs:
    """What makes the pairs of a complex array of constants in each call."""

    def __init__(self, pairs: np.ndarray) -> None:
        self._pairs = pairs
        self.__name__ = self.__qualname__ = "complex_constant"

    def __call__(self) -> np.ndarray:
        return self._pairs.copy("K")
