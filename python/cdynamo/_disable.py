"""`disable`: this file's frames, and all that they call, run in plain Python."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable)


def disable(fn: F | None = None) -> Any:
    """Marks a function (or a module's forward) to be run in Python, never captured; also a decorator."""
    if fn is None:
        return disable
    if isinstance(fn, types.FunctionType):

        @functools.wraps(fn)
        def disabled(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        disabled._cdynamo_disable = True
        return disabled
    if not callable(fn):
        raise TypeError(f"disable takes a callable, not {type(fn).__name__}")
    return disable(lambda *args, **kwargs: fn(*args, **kwargs))
