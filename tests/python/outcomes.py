"""What a function does with its arguments, in a form that can be compared; for tests that run without PyTorch too."""

from __future__ import annotations

import numpy as np
import pytest

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="there is no PyTorch")


def described(value):
    if isinstance(value, tuple):
        return tuple(map(described, value))
    if isinstance(value, np.ndarray | np.generic):
        return type(value), value.dtype, value.shape, value.tolist()
    if torch is not None and isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.tolist()
    return type(value), value


def outcome(function, *args):
    try:
        return repr(described(function(*args)))  # NaN is NaN in a text
    except Exception as error:
        return type(error), str(error).split("\n")[0]
