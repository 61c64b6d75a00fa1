"""An optimized object as a second view of the same object.

The view is an instance of a subclass that differs in `__call__` only, and its `__dict__` is the original's: attributes,
parameters, hooks and train()/eval() are shared, `isinstance` holds, and the original stays eager.
"""

from __future__ import annotations

import types
from typing import Any

from cdynamo import _C


class _ViewClasses:
    """One subclass for each class and set of options, so that views of one kind share compiled entries."""

    def __init__(self) -> None:
        self._classes: dict[tuple[type, int], type] = {}

    def get(self, cls: type, options: Any) -> type:
        key = (cls, id(options))
        if key not in self._classes:
            self._classes[key] = _make_view_class(cls, options)
        return self._classes[key]


_VIEW_CLASSES = _ViewClasses()


def _make_view_class(cls: type, options: Any) -> type:
    def __reduce_ex__(self: Any, protocol: int) -> tuple:
        return _restore, (original_of(self), options.as_kwargs())

    namespace = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__call__": _C.make_optimized(cls.__call__, options.handle),
        "__reduce_ex__": __reduce_ex__,
        "_cdynamo_view_of": cls,
    }
    return types.new_class(cls.__name__, (cls,), exec_body=lambda body: body.update(namespace))


def _restore(original: Any, kwargs: dict[str, Any]) -> Any:
    from cdynamo._api import optimize

    return optimize(original, **kwargs)


def _share(source: Any, cls: type) -> Any:
    other = object.__new__(cls)
    object.__setattr__(other, "__dict__", source.__dict__)
    return other


def original_of(view: Any) -> Any:
    """The object as it was before `optimize`: the same state, eager."""
    return _share(view, type(view)._cdynamo_view_of)


def is_view(obj: Any) -> bool:
    return hasattr(type(obj), "_cdynamo_view_of")


def make_view(obj: Any, options: Any) -> Any:
    """The optimized view of an object that `can_be_viewed`."""
    return _share(obj, _VIEW_CLASSES.get(type(obj), options))


def can_be_viewed(obj: Any) -> bool:
    """True where the class defines `__call__` in Python and its instances have a `__dict__`."""
    return isinstance(type(obj).__call__, types.FunctionType) and hasattr(obj, "__dict__")
