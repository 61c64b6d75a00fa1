"""`cdynamo.config`: settings of the whole process, checked as they are set."""

from __future__ import annotations

import os
from typing import Any

from cdynamo import _C

# name: (type, default, what it does)
_SETTINGS: dict[str, tuple[type, Any, str]] = {
    "recompile_limit": (int, 8, "entries of one function before further calls run in Python"),
    "suppress_errors": (
        bool,
        None,
        "None: an internal error is logged and the call runs in Python, a backend's error is raised; "
        "True: both are logged; False: both are raised",
    ),
    "keep_empty_graphs": (bool, False, "compile functions without tensors too"),
    "disk_cache": (bool, True, "keep machine code on disk between processes"),
    "debug": (
        bool,
        os.environ.get("CDYNAMO_DEBUG", "") not in ("", "0"),
        "each kernel by itself and waited for: errors and crashes name it and its lines (also CDYNAMO_DEBUG=1)",
    ),
    "memory_budget": (float, 1.0, "part of what speed would keep for the backward (0 to 1); the rest is recomputed"),
    "compile_seconds": (float, 30.0, "processor time for compiling one function; what takes longer is left to Python"),
}


class Config:
    """Settings; `help(cdynamo.config)` lists them.

    Raises AttributeError for an unknown name and TypeError for a value of the wrong type.
    """

    def __init__(self) -> None:
        for name, (_, default, _doc) in _SETTINGS.items():
            setattr(self, name, default)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _SETTINGS:
            raise AttributeError(f"cdynamo.config has no setting {name!r}; there are {', '.join(_SETTINGS)}")
        expected = _SETTINGS[name][0]
        if expected is float and type(value) is int:
            value = float(value)
        unset = value is None and _SETTINGS[name][1] is None
        if type(value) is not expected and not unset:
            raise TypeError(f"cdynamo.config.{name} takes {expected.__name__}, not {type(value).__name__}")
        if expected is int and value < 1:
            raise ValueError(f"cdynamo.config.{name} must be at least 1, not {value}")
        if name == "memory_budget" and not 0 <= value <= 1:
            raise ValueError(f"cdynamo.config.{name} must be between 0 and 1, not {value}")
        if name == "compile_seconds" and not value > 0:
            raise ValueError(f"cdynamo.config.{name} must be more than 0, not {value}")
        _C.set_config(name, 1.0 if unset else float(value))
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        rows = (f"  {name} = {getattr(self, name)!r:8}  # {row[2]}" for name, row in _SETTINGS.items())
        return "cdynamo.config:\n" + "\n".join(rows)


config = Config()
