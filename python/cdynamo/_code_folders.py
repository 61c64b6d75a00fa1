"""Whose code is whose: which code is never compiled on its own, and which reports do not name lines of."""

from __future__ import annotations

import os
import sys
from types import CodeType

from cdynamo import _C

_PACKAGES = ("torch", "numpy", "functorch", "torchgen", "sympy", "networkx", "pytest", "_pytest", "pluggy")
# What torch.compiler.disable wraps, and checkpoints: what is recomputed has to be what the forward did.
_PLAIN_TORCH = (("_dynamo",), ("_compile.py",), ("utils", "checkpoint.py"))

_HERE = os.path.dirname(os.path.abspath(__file__))
_SITES = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
LIBRARIES = (_HERE, *(os.path.join(path, name) for path in _SITES for name in _PACKAGES))


def is_library_code(code: CodeType) -> bool:
    return code.co_filename.startswith(LIBRARIES)


def tell_extension() -> None:
    """Code of the standard library and of frameworks is inlined when called, never compiled on its own."""
    stdlib = os.path.dirname(os.path.abspath(os.__file__))
    skipped = [stdlib, "<frozen", *LIBRARIES]
    modules = [os.path.join(path, "torch", "nn", "modules") for path in _SITES]
    kept = [*modules, *_SITES, os.path.join(stdlib, "test")]
    plain = [os.path.join(_HERE, "_disable.py")]
    plain += [os.path.join(path, "torch", *rest) for path in _SITES for rest in _PLAIN_TORCH]
    _C.set_code_folders(skipped, kept, plain, list(LIBRARIES))
