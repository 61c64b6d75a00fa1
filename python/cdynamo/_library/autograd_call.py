"""Calls that are made of PyTorch's own functions, with the derivative that its autograd has of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from cdynamo._autograd import with_strides
from cdynamo._library.derivative import bits_of, gradients_of, leaf, mask_of
from cdynamo._library.tensors import hand_over

_MOST = 10  # results, and operands that are floats, that core.library has a bit for


class AutogradCall:
    """What `call.Call` is for an operator. A subclass says what is to be computed, and `symbolic/torch/autograd_call.h`
    which types the results have. The derivative computes it once more."""

    name = ""
    attributes = ""
    native = None
    stale = False

    def __init__(self) -> None:
        self.__name__ = self.__qualname__ = self.name
        self.differentiable = -1
        self._strides: tuple[tuple[int, ...] | None, ...] = ()
        self._are_floats: tuple[bool, ...] = ()

    def compute(self, *tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        raise NotImplementedError

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.compute(*tensors))

    def lay_out(self, strides: tuple[tuple[int, ...] | None, ...], are_floats: tuple[bool, ...], results: int) -> None:
        """How the operands lie (None: row-major), and which of them are floats."""
        self._strides, self._are_floats = strides, are_floats
        floats = sum(are_floats)
        if floats <= _MOST and results <= _MOST:
            self.differentiable = mask_of(range(results)) | mask_of(range(_MOST, _MOST + floats))

    def _gradients(self, incoming: int, tensors: Sequence, create_graph: bool = False) -> list[torch.Tensor | None]:
        """Of the operands that require grad."""
        operands, of = tensors[: len(self._strides)], tensors[len(self._strides) :]
        with torch.enable_grad():
            results = self.compute(*operands)
        return gradients_of(results, dict(zip(bits_of(incoming), of)), operands, create_graph)

    def derivative(self, incoming: int) -> Callable[..., list[torch.Tensor]]:
        """As `derivative.Derivative.function`."""

        def backward(*tensors: torch.Tensor) -> list[torch.Tensor]:
            again = torch.is_grad_enabled()  # the gradients are differentiated too
            count = len(self._strides)
            operands = [tensor if again and tensor.requires_grad else leaf(tensor) for tensor in tensors[:count]]
            gradients = self._gradients(incoming, [*operands, *tensors[count:]], create_graph=again)
            wanted = [operand for operand in operands if operand.requires_grad]
            return [torch.zeros_like(o) if g is None else g for o, g in zip(wanted, gradients)]

        backward.__name__ = f"{self.name}_backward"
        return backward

    def run(self, incoming: int, inputs: list[torch.Tensor], outputs: Sequence) -> list[torch.Tensor | None]:
        """As `call.Call.run`."""
        with torch.no_grad(), torch.autocast(inputs[0].device.type, enabled=False):
            for i, strides in enumerate(self._strides):
                if strides is None:
                    inputs[i] = inputs[i].contiguous()
                else:
                    inputs[i] = with_strides(inputs[i], strides)
            if not incoming:
                return hand_over(inputs, outputs, self.compute(*inputs))
            asked = [output is not None for output in outputs]
            wanted = iter(asked)
            given = [leaf(t) if is_float and next(wanted) else t for t, is_float in zip(inputs, self._are_floats)]
            gradients = iter(self._gradients(incoming, given + inputs[len(given) :]))
            return hand_over(inputs, outputs, [next(gradients) if is_asked else None for is_asked in asked])
