"""Recurrent layers over packed sequences, whose steps only the graph knows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from cdynamo._library.autograd_call import AutogradCall


class PackedRecurrence(AutogradCall):
    """torch.lstm and the like of data, batch sizes, the states, and all weights one after the other in one tensor."""

    def __init__(self, name: str, weight_sizes: tuple[tuple[int, ...], ...], options: tuple) -> None:
        self.name = name
        super().__init__()
        self._function = getattr(torch, name)
        self._weight_sizes, self._options = weight_sizes, options
        self.attributes = f"{weight_sizes}, {options}"

    def compute(self, *tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        data, batch_sizes, *states, weights = tensors
        parts = weights.split([math.prod(sizes) for sizes in self._weight_sizes])
        given = [part.view(sizes) for part, sizes in zip(parts, self._weight_sizes)]
        state = states if self.name == "lstm" else states[0]
        return self._function(data, batch_sizes, state, given, *self._options)
