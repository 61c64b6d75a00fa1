"""Unmodified PyTorch and NumPy programs, run as compiled code.

    import cdynamo

    fast = cdynamo.optimize(model)      # or a function, or used as a decorator
    fast(x)                             # captured, fused and compiled in this process; cached for the next call

Importing cdynamo imports neither torch nor numpy.
"""

from cdynamo import _C
from cdynamo._api import (
    explain,
    graph_break,
    is_compiling,
    optimize,
    reset,
    set_stance,
)
from cdynamo._backends import list_backends, register_backend
from cdynamo._config import config
from cdynamo._counters import counters
from cdynamo._disable import disable
from cdynamo._errors import BackendCompilerFailed, GraphBreakError
from cdynamo._explain import Explanation
from cdynamo._grad import grad, value_and_grad
from cdynamo._logs import set_logs

__all__ = [
    "BackendCompilerFailed",
    "Explanation",
    "GraphBreakError",
    "config",
    "counters",
    "disable",
    "explain",
    "grad",
    "graph_break",
    "is_compiling",
    "list_backends",
    "optimize",
    "register_backend",
    "reset",
    "set_logs",
    "set_stance",
    "value_and_grad",
]

__version__ = "0.1.0"

_C.connect()
