"""The exceptions that cdynamo raises of its own."""

from __future__ import annotations

import sys


class GraphBreakError(RuntimeError):
    """A graph break where `fullgraph=True` allows none. The message is the whole break report.

    Where torch._dynamo is imported, what is raised is a subclass of torch._dynamo.exc.Unsupported too.
    """


class BackendCompilerFailed(RuntimeError):
    """A backend failed on a graph: `backend_name`, `inner_exception`.

    Where torch._dynamo is imported, what is raised is a subclass of torch._dynamo.exc.BackendCompilerFailed too.
    """

    backend_name: str
    inner_exception: Exception


GraphBreakError.__module__ = BackendCompilerFailed.__module__ = "cdynamo"

_combined: dict[type, type] = {}


def _combine(ours: type, theirs: str) -> type:
    """`ours`, or a subclass of it and of torch._dynamo's class where that is imported."""
    exc = sys.modules.get("torch._dynamo.exc")
    if exc is None:
        return ours
    if ours not in _combined:
        namespace = {"__init__": _init, "__str__": lambda self: self.msg, "__module__": "cdynamo"}
        _combined[ours] = type(ours.__name__, (ours, getattr(exc, theirs)), namespace)
    return _combined[ours]


def _init(self: RuntimeError, message: str) -> None:
    RuntimeError.__init__(self, message)
    self.msg = message
    self.first_useful_frame = None  # torch._dynamo.exc.ShortenTraceback's


def graph_break_error_class() -> type:
    """The class to raise; called by the extension."""
    return _combine(GraphBreakError, "Unsupported")


def backend_failure(name: str, error: Exception) -> BackendCompilerFailed:
    """What to raise where the backend `name` raised `error`: in torch.compile's words."""
    message = f"backend={name!r} raised:\n{type(error).__name__}: {error}"
    failure = _combine(BackendCompilerFailed, "BackendCompilerFailed")(message)
    failure.backend_name, failure.inner_exception = name, error
    return failure
