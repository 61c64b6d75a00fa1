"""Who owns compiled code: one Owner for each object that was optimized (and set of options), while the object lives."""

from __future__ import annotations

import os
import sys
import types
import weakref
from typing import Any

from cdynamo import _C
from cdynamo._code_folders import LIBRARIES, is_library_code
from cdynamo._options import Options


class _Owners:
    """The owners of objects that others optimize too, by identity: an object may define what equals it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref, dict[Any, Any]]] = {}

    def of(self, subject: Any) -> dict[Any, Any] | None:
        """What is kept of it, for as long as it lives. None: nothing can be, it has no weak references."""
        key = id(subject)
        known = self._known.get(key)
        if known is not None and known[0]() is subject:
            return known[1]

        def forget(reference: weakref.ref) -> None:
            if key in self._known and self._known[key][0] is reference:
                del self._known[key]

        try:
            reference = weakref.ref(subject, forget)
        except TypeError:
            return None
        kept: dict[Any, Any] = {}
        self._known[key] = (reference, kept)
        return kept


_OWNERS = _Owners()


def owner_of(subject: Any, options: Options, name: str, method: Any = None) -> Any:
    """The Owner of what is compiled for `subject` (for its `method`): one for equal options, where others may ask."""
    kept = _OWNERS.of(subject) if options.shared else None
    if kept is None:
        return _C.make_owner(options.handle, name)
    key = (id(options), id(method))
    if key not in kept:
        kept[key] = _C.make_owner(options.handle, name)
    return kept[key]


def name_of(fn: Any) -> str:
    """How reports call what was optimized: "step (train.py:12)"; a library's class by where it was optimized."""
    if isinstance(fn, types.MethodType):
        fn = fn.__func__
    if isinstance(fn, types.FunctionType):
        return f"{fn.__code__.co_name} ({_place(fn.__code__.co_filename, fn.__code__.co_firstlineno)})"
    cls = type(fn)
    for method in (getattr(cls, "forward", None), cls.__call__):
        if isinstance(method, types.FunctionType) and not is_library_code(method.__code__):
            return f"{cls.__name__} ({_place(method.__code__.co_filename, method.__code__.co_firstlineno)})"
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(LIBRARIES):
        frame = frame.f_back
    return f"{cls.__name__} (optimized at {_place(frame.f_code.co_filename, frame.f_lineno)})"


def _place(file: str, line: int) -> str:
    return f"{os.path.basename(file)}:{line}"
