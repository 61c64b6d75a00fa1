"""Functions of Python's on numbers that a graph has only when it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from cdynamo._library.tensors import Mispredicted, hand_over

_DTYPES = {float: torch.float64, int: torch.int64, bool: torch.bool}
_LARGEST = 2**53  # of the ints that a graph computes with


class NumberCall:
    """A call of `function` with numbers, as `call.Call` is one of an operator: `given` has the constants, and None
    where a 0-dim tensor comes; its result is one number of `type`."""

    native = None
    stale = False
    differentiable = 0

    def __init__(self, function: Callable, given: tuple[float | None, ...], type: type) -> None:
        self.name = f"python::{getattr(function, '__name__', 'number')}"
        self.__name__ = self.__qualname__ = self.name.replace("::", "_")
        self.attributes = ""
        self._function, self._given, self._type = function, given, type

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        numbers = (tensor.item() for tensor in tensors)
        result = self._function(*(next(numbers) if known is None else known for known in self._given))
        if type(result) is not self._type or self._type is int and abs(result) > _LARGEST:
            raise Mispredicted(f"{self.name} gave {result!r}")
        return [torch.tensor(result, dtype=_DTYPES[self._type])]

    def run(self, incoming: int, inputs: list[torch.Tensor], outputs: Sequence) -> list[torch.Tensor | None]:
        """As `call.Call.run`. What the function raises, Python raises when it makes the call again."""
        return hand_over(inputs, outputs, self(*inputs))
