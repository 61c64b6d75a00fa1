"""The options of one `optimize` call, checked, and one object for equal options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cdynamo import _C
from cdynamo._backends import resolve

# In the order of frame_eval::Mode.
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
OPTIONS: dict[str, type] = {}


@dataclass(eq=False)
class Options:
    """What one call of `optimize` asked for; `shared`: other calls with equal arguments get this object too."""

    mode: str
    dynamic: bool | None
    fullgraph: bool
    backend: str | Callable
    options: dict[str, Any] = field(default_factory=dict)
    shared: bool = False
    handle: Any = None

    def as_kwargs(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "dynamic": self.dynamic,
            "fullgraph": self.fullgraph,
            "backend": self.backend,
            "options": self.options or None,
        }


_interned: dict[tuple, Options] = {}


def _checked(mode: Any, dynamic: Any, fullgraph: Any, options: Any) -> None:
    if mode is not None and not isinstance(mode, str):
        raise TypeError(f"mode takes a str, not {type(mode).__name__}")
    if mode is not None and mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; there are {', '.join(MODES)}")
    if dynamic is not None and not isinstance(dynamic, bool):
        raise TypeError(f"dynamic takes True, False or None, not {type(dynamic).__name__}")
    if not isinstance(fullgraph, bool):
        raise TypeError(f"fullgraph takes a bool, not {type(fullgraph).__name__}")
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"options takes a dict, not {type(options).__name__}")
    for name in options or {}:
        if name not in OPTIONS:
            known = f"; there are {', '.join(OPTIONS)}" if OPTIONS else "; this version has none"
            raise ValueError(f"unknown option {name!r}{known}")


def make(
    mode: Any,
    dynamic: Any,
    fullgraph: Any,
    backend: Any,
    options: Any,
    *,
    evicts: bool = False,
    shared: bool = False,
) -> Options:
    """A new Options with compiled code of its own. Raises ValueError, TypeError."""
    _checked(mode, dynamic, fullgraph, options)
    kind, function = resolve(backend)
    result = Options(mode or "default", dynamic, fullgraph, backend, dict(options or {}), shared)
    bridge = None
    if function is not None:
        from cdynamo._fx import bridge_to

        bridge = bridge_to(function, is_eager=kind == 1)
    result.handle = _C.make_config(
        kind,
        bridge,
        fullgraph,
        dynamic is True,
        dynamic is False,
        evicts,
        shared,
        MODES.index(result.mode),
    )
    return result


def get(mode: Any, dynamic: Any, fullgraph: Any, backend: Any, options: Any) -> Options:
    """The Options for these arguments; equal ones give the same object. Raises ValueError, TypeError."""
    if callable(backend) or options:
        return make(mode, dynamic, fullgraph, backend, options)
    _checked(mode, dynamic, fullgraph, options)
    key = (mode or "default", dynamic, fullgraph, backend if isinstance(backend, str) else repr(backend))
    if key not in _interned:
        _interned[key] = make(mode, dynamic, fullgraph, backend, options, shared=True)
    return _interned[key]
