"""An optimized object as a second view of the same object.

The view is an instance of a subclass that differs in `__call__` only, and its `__dict__` is the original's: attributes,
parameters, hooks and train()/eval() are shared, `isinstance` holds, and the original stays eager. What is compiled
belongs to the object: all views of it under equal options have one owner, in a slot.
"""

from __future__ import annotations

import types
import weakref
from typing import Any

from cdynamo import _C
from cdynamo._options import Options
from cdynamo._owners import name_of, owner_of

_SLOT = "_cdynamo_owner"

# One subclass for each class and set of options, while there are views of that kind.
_view_classes: weakref.WeakValueDictionary[tuple[int, int], type] = weakref.WeakValueDictionary()


def _view_class(cls: type, options: Options) -> type:
    key = (id(cls), id(options))  # a view class holds both
    found = _view_classes.get(key)
    if found is None:
        found = _view_classes[key] = _make_view_class(cls, options)
    return found


def _make_view_class(cls: type, options: Options) -> type:
    def __reduce_ex__(self: Any, protocol: int) -> tuple:
        return _restore, (original_of(self), options.as_kwargs())

    call = _C.make_optimized(cls.__call__, _C.make_owner(options.handle, cls.__name__))
    namespace = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__slots__": (_SLOT,),
        "__call__": call,
        "__reduce_ex__": __reduce_ex__,
        "_cdynamo_view_of": cls,
        "_cdynamo_options": options,
    }
    view = types.new_class(cls.__name__, (cls,), exec_body=lambda body: body.update(namespace))
    _C.set_owner_slot(call, view.__dict__[_SLOT])
    return view


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


def make_view(obj: Any, options: Options) -> Any:
    """The optimized view of an object that `can_be_viewed`, or of what a view is a view of."""
    if not is_view(obj):
        view = _share(obj, _view_class(type(obj), options))
        owner = owner_of(obj, options, name_of(obj))
    elif type(obj)._cdynamo_options is options:
        return obj
    else:
        original = original_of(obj)
        view = _share(original, _view_class(type(original), options))
        owner = owner_of(obj, options, name_of(original))
    object.__setattr__(view, _SLOT, owner)
    return view


def can_be_viewed(obj: Any) -> bool:
    """True where the class defines `__call__` in Python and its instances have a `__dict__`."""
    return isinstance(type(obj).__call__, types.FunctionType) and hasattr(obj, "__dict__")
