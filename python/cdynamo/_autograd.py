"""The classes of the one autograd node that a compiled function is to PyTorch.

Their methods are C: `torch.autograd.Function` would look at each call in Python first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import FunctionCtx, _HookMixin, _SingleLevelFunction


def make_node_class(forward: Callable[..., Any], attach_apply: Callable[[type], None]) -> Any:
    """The bound ``apply`` of a new node class.

    ``forward(node, *inputs)`` gives the outputs; ``attach_apply(cls)`` adds the method that the engine calls
    with the gradients of the outputs.
    """

    class CompiledFunctionBackward(torch._C._FunctionBase, FunctionCtx, _HookMixin):  # type: ignore[misc]
        clear_saved_tensors_on_access = False
        boxed_grads_call = False

    class CompiledFunction(torch._C._FunctionBase):  # type: ignore[misc]
        _backward_cls = CompiledFunctionBackward
        setup_context = _SingleLevelFunction.setup_context
        clear_saved_tensors_on_access = False
        boxed_grads_call = False

    attach_apply(CompiledFunctionBackward)
    CompiledFunction.forward = forward  # type: ignore[attr-defined]
    CompiledFunctionBackward._forward_cls = CompiledFunction  # type: ignore[attr-defined]
    return CompiledFunction.apply
