"""Backends: what a captured graph is given to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

_NATIVE, _EAGER, _CALLABLE = 0, 1, 2
_BUILT_IN = ("native", "eager", "aot_eager")

_registered: dict[str, Callable] = {}


def list_backends() -> list[str]:
    """The names that `optimize(backend=...)` takes, those of torch included once torch is imported."""
    names = [*_BUILT_IN, *_registered]
    return names + [name for name in _torch_backends() if name not in names and name != "cdynamo"]


def register_backend(backend: Callable | None = None, *, name: str | None = None) -> Any:
    """Makes `backend(graph_module, example_inputs) -> callable` known by a name; also a decorator.

    Raises TypeError where it is not callable and ValueError where the name is taken.
    """
    if backend is None:
        return lambda function: register_backend(function, name=name)
    if not callable(backend):
        raise TypeError(f"a backend is a callable, not {type(backend).__name__}")
    key = name or getattr(backend, "__name__", "")
    if not key or key in _BUILT_IN or key in _registered:
        raise ValueError(f"a backend named {key!r} is there already" if key else "the backend needs a name")
    _registered[key] = backend
    return backend


def _torch_backends() -> list[str]:
    if not sys.modules.get("torch"):
        return []
    from torch._dynamo import list_backends as torch_list_backends

    return torch_list_backends()


def resolve(backend: str | Callable) -> tuple[int, Callable | None]:
    """(kind, callable) of a backend as the user named it. Raises ValueError, TypeError."""
    if backend == "native":
        return _NATIVE, None
    if backend == "eager":
        return _EAGER, _eager
    if backend == "aot_eager":
        return _CALLABLE, _aot_eager
    if callable(backend):
        return _CALLABLE, backend
    if not isinstance(backend, str):
        raise TypeError(f"backend takes a name or a callable, not {type(backend).__name__}")
    if backend in _registered:
        return _CALLABLE, _registered[backend]
    if backend != "cdynamo" and backend in _torch_backends():
        from torch._dynamo import lookup_backend

        return _CALLABLE, lookup_backend(backend)
    raise ValueError(f"unknown backend {backend!r}; there are {', '.join(list_backends())}")


def _eager(graph: Any, example_inputs: Sequence[Any]) -> Callable:
    """The captured calls, one by one, in Python."""
    return graph.forward


def _aot_eager(graph: Any, example_inputs: Sequence[Any]) -> Callable:
    """Forward and backward traced ahead of time by torch, each run operator by operator: to tell apart what fails."""
    if not hasattr(graph, "graph"):  # NumPy's: there is no backward
        return graph.forward
    from torch._dynamo import lookup_backend

    return lookup_backend("aot_eager")(graph, example_inputs)


def torch_compile_backend(module: Any, example_inputs: Sequence[Any], **options: Any) -> Callable:
    """What `torch.compile(model, backend="cdynamo")` calls with each graph that torch has captured.

    `options` are keyword arguments of `optimize`, as in `torch.compile(model, backend="cdynamo", options={...})`; of
    torch's own, `mode` is one of them. Nothing runs before the first call: the inputs here are fake tensors.
    """
    from cdynamo._api import optimize

    if hasattr(module, "real_recompile"):  # else the code of `forward` is written at its first call
        module.real_recompile()
    chosen = {**(options.pop("options", None) or {}), **options}
    return optimize(module.forward, **chosen)
