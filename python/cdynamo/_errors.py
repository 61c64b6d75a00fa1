"""The exceptions that cdynamo raises of its own."""

from __future__ import annotations

import sys


class GraphBreakError(RuntimeError):
    """A graph break where `fullgraph=True` allows none. The message is the whole break report.

    Where torch._dynamo is imported, what is raised is a subclass of torch._dynamo.exc.Unsupported too.
    """


GraphBreakError.__module__ = "cdynamo"

_combined: list[type] = []


def graph_break_error_class() -> type:
    """The class to raise; called by the extension."""
    exc = sys.modules.get("torch._dynamo.exc")
    if exc is None:
        return GraphBreakError
    if not _combined:

        class CombinedGraphBreakError(GraphBreakError, exc.Unsupported):
            def __init__(self, message: str) -> None:
                RuntimeError.__init__(self, message)
                self.msg = message

            def __str__(self) -> str:
                return self.msg

        CombinedGraphBreakError.__name__ = CombinedGraphBreakError.__qualname__ = "GraphBreakError"
        CombinedGraphBreakError.__module__ = "cdynamo"
        _combined.append(CombinedGraphBreakError)
    return _combined[0]
