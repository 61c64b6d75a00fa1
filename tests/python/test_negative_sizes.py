"""Sizes and counts that come out negative: plain Python's outcome, whether the number is known or bound at run time."""

from __future__ import annotations

import numpy as np
import pytest
from outcomes import needs_torch, outcome, torch

import cdynamo

ARRAYS = {
    "zeros": lambda n: np.zeros(n),
    "zeros of two dims": lambda n: np.zeros((2, n)),
    "ones": lambda n: np.ones(n),
    "full": lambda n: np.full(n, 3.0),
    "shape of empty": lambda n: np.empty(n).shape,
    "eye": lambda n: np.eye(n),
    "linspace": lambda n: np.linspace(0, 1, n),
    "tile": lambda n: np.tile(np.arange(3), n),
    "repeat": lambda n: np.repeat(np.arange(3), n),
    "arange": lambda n: np.arange(n),
    "zeros_like": lambda n: np.zeros_like(np.ones(3), shape=(n,)),
    "broadcast_to": lambda n: np.broadcast_to(np.ones(1), (n,)),
    "resize": lambda n: np.resize(np.arange(3), n),
    "pad": lambda n: np.pad(np.arange(3), n),
    "vander": lambda n: np.vander(np.arange(3), n),
    "split": lambda n: np.array_split(np.arange(6), n),
    "slice": lambda n: np.arange(5)[:n],
}


TENSORS = {
    "zeros": lambda n: torch.zeros(n),
    "full": lambda n: torch.full((n,), 2.0),
    "shape of empty": lambda n: torch.empty(n).shape,
    "shape of randn": lambda n: torch.randn(n).shape,
    "shape of randperm": lambda n: torch.randperm(n).shape,
    "new_zeros": lambda n: torch.ones(2).new_zeros(n),
    "arange": lambda n: torch.arange(n),
    "eye": lambda n: torch.eye(n),
    "repeat": lambda n: torch.ones(3).repeat(n),
    "tile": lambda n: torch.ones(3).tile(n),
    "repeat_interleave": lambda n: torch.ones(3).repeat_interleave(n),
    "expand": lambda n: torch.ones(1).expand(n),
    "view": lambda n: torch.ones(4).view(n, 2),
    "unfold": lambda n: torch.ones(6).unfold(0, n, 1),
    "narrow": lambda n: torch.ones(5).narrow(0, 0, n),
    "split": lambda n: torch.ones(6).split(n),
    "pad": lambda n: torch.nn.functional.pad(torch.ones(3), (n, n)),
    "topk": lambda n: torch.arange(5.0).topk(n),
    "interpolate": lambda n: torch.nn.functional.interpolate(torch.ones(1, 1, 4), size=n),
}


def check(function):
    for numbers in ([-1], [3, 2, 4, -1, 0, -3]):
        fast = cdynamo.optimize(function)
        for n in numbers:
            assert outcome(fast, n) == outcome(function, n), n


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(name):
    check(ARRAYS[name])


@needs_torch
@pytest.mark.parametrize("name", TENSORS)
def test_tensors(name):
    check(TENSORS[name])
