"""`optimize` and the functions beside it."""

from __future__ import annotations

import atexit
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from cdynamo import _C, _options
from cdynamo._code_folders import tell_extension
from cdynamo._explain import Explanation, listening
from cdynamo._logs import set_logs_from_environment
from cdynamo._module import can_be_viewed, is_view, make_view
from cdynamo._owners import name_of, owner_of


def optimize(
    fn: Any = None,
    *,
    mode: str | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    backend: str | Callable = "native",
    options: dict[str, Any] | None = None,
) -> Any:
    """Returns `fn` as a callable that runs as compiled code; also a decorator, with or without arguments.

    Args:
        fn: a function, method, `torch.nn.Module` or other callable. Of a module a second view is returned: the same
            attributes, parameters and hooks; the original stays eager.
        mode: "default", "reduce-overhead", "max-autotune" or "max-autotune-no-cudagraphs".
        dynamic: True: sizes are dynamic from the first call on. False: never. None: a size that has changed becomes
            dynamic.
        fullgraph: raise GraphBreakError where the whole function does not become one graph. An exception of its own is
            raised as it is.
        backend: "native", "eager", a name from `list_backends()`, or a callable
            `backend(graph_module, example_inputs) -> callable`.
        options: further options by name.

    Raises:
        TypeError: an argument of the wrong type. ValueError: an unknown mode, backend or option.
    """
    chosen = _options.get(mode, dynamic, fullgraph, backend, options)
    if fn is None:
        return lambda function: _optimize(function, chosen)
    return _optimize(fn, chosen)


def _warm_up_gpu() -> None:
    """Readies what the first kernel on a GPU needs, in threads, where the program has begun to use one."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        _C.warm_up_gpu(cuda.current_device())


atexit.register(_C.finish_warm_up)


def _optimize(fn: Any, options: _options.Options) -> Any:
    if isinstance(fn, type) or not callable(fn):
        kind = f"the class {fn.__name__}" if isinstance(fn, type) else type(fn).__name__
        raise TypeError(f"optimize takes a function, a method, a module or another callable object, not {kind}")
    _warm_up_gpu()
    if isinstance(fn, _C.OptimizedFunction):
        fn = fn.__wrapped__
    if is_view(fn):
        return make_view(fn, options)
    if isinstance(fn, types.FunctionType):
        return _named_like(_C.make_optimized(fn, owner_of(fn, options, name_of(fn))), fn)
    if isinstance(fn, types.MethodType) and isinstance(fn.__func__, types.FunctionType):
        owner = owner_of(fn.__self__, options, name_of(fn), fn.__func__)
        return types.MethodType(_C.make_optimized(fn.__func__, owner), fn.__self__)
    if can_be_viewed(fn):
        return make_view(fn, options)

    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return _named_like(_C.make_optimized(call, owner_of(fn, options, name_of(fn))), fn)


def _named_like(optimized: Any, fn: Any) -> Any:
    """Gives it the name and documentation of `fn`; everything else it looks up on the function itself."""
    for name in functools.WRAPPER_ASSIGNMENTS:
        if hasattr(fn, name):
            setattr(optimized, name, getattr(fn, name))
    return optimized


def explain(fn: Any, **optimize_options: Any) -> Callable[..., Explanation]:
    """`explain(fn)(*args)` runs `fn` compiled, from scratch, and tells what was captured and where it broke.

    Takes the keyword arguments of `optimize`. Returns a callable that takes the arguments of `fn` and returns an
    Explanation: graphs, graph breaks with their reasons, guards, kernels; `print` shows it all.
    """
    defaults = {"mode": None, "dynamic": None, "fullgraph": False, "backend": "native", "options": None}
    unknown = set(optimize_options) - set(defaults)
    if unknown:
        raise TypeError(f"explain() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    fresh = _options.make(**{**defaults, **optimize_options})
    optimized = _optimize(fn, fresh)

    def run(*args: Any, **kwargs: Any) -> Explanation:
        with listening() as explanation:
            explanation.result = optimized(*args, **kwargs)
        return explanation

    return run


def graph_break() -> None:
    """Ends the graph here; what follows is captured anew. Does nothing in plain Python."""


def is_compiling() -> bool:
    """True while a function is captured, False in plain Python."""
    return False


def reset() -> None:
    """Drops all compiled code and what was learnt about sizes and loops; the next calls compile again."""
    _C.reset()


# In the order of Stance in frame_eval/hook/stance.h.
_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile")


def set_stance(stance: str) -> None:
    """What optimized callables do from here on. `torch.compiler.set_stance` is obeyed as well.

    "default": compiled code runs. "force_eager": every optimized callable runs in plain Python.
    "eager_on_recompile": what is compiled runs, and nothing else is compiled. "fail_on_recompile": what would have to
    be compiled raises RuntimeError. "eager_then_compile": the first call of a function runs in plain Python.

    Raises ValueError for an unknown stance.
    """
    if stance not in _STANCES:
        raise ValueError(f"unknown stance {stance!r}; there are {', '.join(_STANCES)}")
    _C.set_config("stance", _STANCES.index(stance))


tell_extension()
set_logs_from_environment()
