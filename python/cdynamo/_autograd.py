"""The classes of the one autograd node that a compiled function is to PyTorch.

Their methods are C: `torch.autograd.Function` would look at each call in Python first.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import FunctionCtx, _HookMixin, _SingleLevelFunction


def apply_of(cls: type, is_own: bool) -> Callable[..., Any]:
    """`cls.apply` as a function with a name of its own, which torch.fx can print.

    A class of the program's dies as it would in Python: graphs that call it are of no use any more. The capture's own
    lives as long as they do.
    """
    held: Callable[[], Any] = (lambda: cls) if is_own else weakref.ref(cls)

    def apply(*args: Any) -> Any:
        return held().apply(*args)

    apply.__name__ = apply.__qualname__ = f"apply_{cls.__name__}"
    return apply


def once_differentiable(gradients: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor | None, ...]:
    """The gradients with a history that raises an error where a derivative is asked of it."""
    message = b"a higher derivative through an autograd.Function or a hook that is not linear: run it eagerly"
    present = [g for g in gradients if g is not None and g.requires_grad]
    if not present:
        return gradients
    marked = torch._C._functions.DelayedError(message, len(present))(*present)
    results = iter(marked if isinstance(marked, (tuple, list)) else (marked,))
    return tuple(next(results) if g is not None and g.requires_grad else g for g in gradients)


def with_strides(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The tensor, or a copy that has these strides."""
    if all(n <= 1 or a == b for n, a, b in zip(tensor.shape, tensor.stride(), strides)):
        return tensor
    with torch.no_grad():
        made = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
        once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)
        made[once].copy_(tensor[once])
    return made


def inference_tensor(result: torch.Tensor) -> torch.Tensor:
    """The tensor as it is made under inference_mode, on the same memory."""
    with torch.inference_mode():
        made = torch.empty(0, dtype=result.dtype, device=result.device)
        return made.set_(result.untyped_storage(), result.storage_offset(), result.size(), result.stride())


class HistoryOfLeaves(torch.autograd.Function):
    """The history of a tensor that was computed of leaves which nobody can reach any more."""

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, None]:
        return None, None


def history_of_leaves(result: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        return HistoryOfLeaves.apply(result.new_empty(0).requires_grad_(), result)


class HooksOfOneResult(OrderedDict[int, Callable[..., Any]]):
    """The hooks of one of a node's several results: eager does not call them where no gradient comes to it."""

    def __setitem__(self, key: int, hook: Callable[..., Any]) -> None:
        super().__setitem__(key, lambda gradient: None if gradient is None else hook(gradient))


def make_node_class(forward: Callable[..., Any], attach_apply: Callable[[type], None]) -> Any:
    """The bound ``apply`` of a new node class.

    ``forward(node, *inputs)`` gives the outputs; ``attach_apply(cls)`` adds the method that the engine calls
    with the gradients of the outputs.
    """

    class CompiledFunctionBackward(torch._C._FunctionBase, FunctionCtx, _HookMixin):  # type: ignore[misc]
        clear_saved_tensors_on_access = False
        boxed_grads_call = False

        def _register_hook_dict(self, tensor: torch.Tensor) -> None:
            if len(self._input_metadata) > 1 and not tensor._backward_hooks:
                tensor._backward_hooks = HooksOfOneResult()
            super()._register_hook_dict(tensor)

    class CompiledFunction(torch._C._FunctionBase):  # type: ignore[misc]
        _backward_cls = CompiledFunctionBackward
        setup_context = _SingleLevelFunction.setup_context
        clear_saved_tensors_on_access = False
        boxed_grads_call = False

    attach_apply(CompiledFunctionBackward)
    CompiledFunction.forward = forward  # type: ignore[attr-defined]
    CompiledFunctionBackward._forward_cls = CompiledFunction  # type: ignore[attr-defined]
    return CompiledFunction.apply
