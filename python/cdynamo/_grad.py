"""`grad` and `value_and_grad`: derivatives of unmodified functions, compiled with the function."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from cdynamo import _C, _options
from cdynamo._api import is_compiling
from cdynamo._errors import graph_break_error_class
from cdynamo._owners import name_of

_MOST_WAYS = 64  # as many as compiled code is kept of, or so


def variable(x: Any) -> Any:
    """`x` as what is differentiated for. Captured code knows it; in Python it is `x`."""
    return x


def gradients(value: Any, variables: list[Any]) -> list[Any]:
    """d value / d variables. Captured code knows it."""
    raise _not_one_graph()


def _not_one_graph() -> Exception:
    return graph_break_error_class()(
        "cdynamo.grad needs the whole function in one graph, and it broke before its end; "
        "CDYNAMO_LOGS=graph_breaks says where and why"
    )


def follow(path: str) -> None:
    """Branches on array elements are followed from here on, the first ones as `path` says ("10": taken, not taken).

    Captured code knows it; Python follows branches anyway.
    """


def branches() -> tuple[tuple[Any, ...], str]:
    """The conditions of all branches that were followed, and which way they went. Captured code knows it."""
    raise _not_one_graph()


def value_and_grad(fn: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that gives `(fn(...), gradient)`.

    Args:
        fn: a function of NumPy arrays (or torch tensors, or floats) with a scalar float result. Loops and branches are
            as free as in Python; each way through branches on array elements is compiled when a call first takes it.
            It may itself call `grad`.
        argnums: which positional arguments to differentiate for; a sequence gives a tuple of gradients.

    Returns:
        The result of `fn` and, of the shape and dtype of each such argument, the gradient.

    Raises:
        TypeError: such an argument is not of a float type, or the result is no scalar.
        IndexError: there is no such argument. GraphBreakError: the function cannot be captured as a whole.
    """
    places = _places(argnums)

    def compute(path: str, *args: Any, **kwargs: Any) -> Any:
        follow(path)
        given = list(args)
        for place in places:
            given[place] = variable(given[place])
        value = fn(*given, **kwargs)
        _require_scalar(value)
        slopes = gradients(value, [given[place] for place in places])
        return value, (slopes[0] if isinstance(argnums, int) else tuple(slopes)), branches()

    compiled = None if is_compiling() else _C.make_optimized(compute, _owner_of(fn))
    ways: dict[str, str] = {}  # what graphs take, to the path that they were captured for; the last one last
    surprises = 0

    @_named_like(fn)
    def checked(*args: Any, **kwargs: Any) -> Any:
        nonlocal surprises
        for place in places:
            _require_float(args, place)
        if is_compiling():  # within a function that is differentiated in turn, which follows the branches
            return compute("", *args, **kwargs)[:2]
        way, start = next(reversed(ways.values()), ""), ""  # start: what is known of this call's way
        while True:
            try:
                value, slopes, (conditions, taken) = compiled(way, *args, **kwargs)
            except (IndexError, graph_break_error_class()):
                # An index on a way that this call does not take, or the program's own error.
                if way.startswith("?"):
                    raise
                surprises += 1
                way = "?" * surprises
                continue
            if not conditions:
                return value, slopes
            wrong = _first_wrong(conditions, taken)
            ways.pop(taken, None)
            ways[taken] = way
            if len(ways) > _MOST_WAYS:
                del ways[next(iter(ways))]
            # A condition that two graphs see differently is that close to its edge: both are right.
            if wrong is None or (wrong < len(start) and way.startswith(start)):
                return value, slopes
            if wrong < len(start):  # a graph for other sizes took that way for this path
                way = start
                continue
            start = taken[:wrong] + "10"[int(taken[wrong])]
            way = next((ways[other] for other in reversed(ways) if other.startswith(start)), start)

    return checked


def _first_wrong(conditions: tuple[Any, ...], taken: str) -> int | None:
    """Which branch would go another way than the graph assumed."""
    for i, (condition, way) in enumerate(zip(conditions, taken)):
        if bool(condition) != (way == "1"):
            return i
    return None


_owners: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


@functools.cache
def _options_of_gradients() -> _options.Options:
    return _options.make(None, None, False, "native", None, evicts=True)


def _owner_of(fn: Callable[..., Any]) -> Any:
    """The compiled code of each function is counted on its own; equal code shares it, for as long as the code lives."""
    code = getattr(fn, "__code__", _owner_of.__code__)
    if code not in _owners:
        _owners[code] = _C.make_owner(_options_of_gradients().handle, name_of(fn))
    return _owners[code]


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
