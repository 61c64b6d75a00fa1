"""What is captured in place of a function that the program calls: what it has registered with
`torch.compiler.substitute_in_graph`, and the package's own for C functions of libraries that may not be there."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any


def substitute_of(function: Any) -> FunctionType | None:
    """The Python function that is inlined for `function`; None: there is none."""
    return _registered(function) or (_of_optree(function) if "optree" in sys.modules else None)


def _registered(function: Any) -> FunctionType | None:
    variables = sys.modules.get("torch._dynamo.variables")
    handlers_of = getattr(getattr(variables, "PolyfilledFunctionVariable", None), "_get_polyfill_handlers", None)
    polyfill = getattr(handlers_of().get(function), "__torch_dynamo_polyfill__", None) if handlers_of else None
    # torch.compile's own are of functions that are captured here.
    return None if polyfill is None or polyfill.__module__.startswith("torch._dynamo.") else polyfill


def _of_optree(function: Any) -> FunctionType | None:
    from cdynamo.polyfills import optree

    return optree.FUNCTIONS.get(function)
