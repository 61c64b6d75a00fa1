"""`grad` and `value_and_grad`: derivatives of unmodified functions, compiled with the function."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from cdynamo._api import is_compiling, optimize
from cdynamo._errors import graph_break_error_class


def variable(x: Any) -> Any:
    """`x` as what is differentiated for. Captured code knows it; in Python it is `x`."""
    return x


def gradients(value: Any, variables: list[Any]) -> list[Any]:
    """d value / d variables. Captured code knows it."""
    raise graph_break_error_class()(
        "cdynamo.grad needs the whole function in one graph, and it broke before its end; "
        "CDYNAMO_LOGS=graph_breaks says where and why"
    )


def value_and_grad(fn: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that gives `(fn(...), gradient)`.

    Args:
        fn: a function of NumPy arrays (or torch tensors, or floats) with a scalar float result. Loops and branches
            that do not depend on array elements are as free as in Python. It may itself call `grad`.
        argnums: which positional arguments to differentiate for; a sequence gives a tuple of gradients.

    Returns:
        The result of `fn` and, of the shape and dtype of each such argument, the gradient.

    Raises:
        TypeError: such an argument is not of a float type, or the result is no scalar.
        IndexError: there is no such argument. GraphBreakError: the function cannot be captured as a whole.
    """
    places = _places(argnums)

    def compute(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        for place in places:
            given[place] = variable(given[place])
        value = fn(*given, **kwargs)
        _require_scalar(value)
        slopes = gradients(value, [given[place] for place in places])
        return value, (slopes[0] if isinstance(argnums, int) else tuple(slopes))

    compiled = optimize(compute)

    @_named_like(fn)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for place in places:
            _require_float(args, place)
        return compiled(*args, **kwargs)

    return checked


def grad(fn: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that gives the gradient of `fn`: see `value_and_grad`. `grad(grad(fn))` is the second derivative."""
    both = value_and_grad(fn, argnums)

    @_named_like(fn)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return gradient


def _named_like(fn: Callable[..., Any]) -> Callable[..., Any]:
    # Inside captured code nobody reads the names.
    return (lambda made: made) if is_compiling() else functools.wraps(fn)


def _places(argnums: int | Sequence[int]) -> list[int]:
    places = [argnums] if isinstance(argnums, int) else list(argnums)
    if not places or not all(type(place) is int and place >= 0 for place in places):
        raise ValueError(f"argnums takes the positions of arguments, 0 and up, not {argnums!r}")
    return places


def _require_float(args: tuple[Any, ...], place: int) -> None:
    if place >= len(args):
        raise IndexError(f"grad is asked for argument {place}, and {len(args)} are given")
    x = args[place]
    if isinstance(x, float) or getattr(getattr(x, "dtype", None), "kind", "") == "f":
        return
    if "torch" in sys.modules and getattr(getattr(x, "dtype", None), "is_floating_point", False):
        return
    what = getattr(x, "dtype", None)
    raise TypeError(f"grad takes arguments of a float type; argument {place} is {what or type(x).__name__}")


def _require_scalar(value: Any) -> None:
    if getattr(value, "ndim", 0) != 0:
        raise TypeError(f"grad takes functions of a scalar result; this one's has the shape {tuple(value.shape)}")
