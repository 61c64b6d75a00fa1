"""Compiled against eager: outputs, and the gradients that flow back from them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

import cdynamo


def fresh(tensor: Any) -> Any:
    """A leaf with the same data, strides and requires_grad."""
    if not isinstance(tensor, torch.Tensor):
        return tensor
    copied = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).copy_(tensor.detach())
    return copied.requires_grad_(tensor.requires_grad)


def tensors_of(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        return tensors_of(list(result.values()))
    if isinstance(result, (tuple, list)):
        return [tensor for item in result for tensor in tensors_of(item)]
    return []


def assert_close(got: Any, expected: Any, what: str = "") -> None:
    if expected is None or got is None:
        assert got is expected, f"{what}: {got} for {expected}"
        return
    assert got.requires_grad == expected.requires_grad, f"{what}: requires_grad is {got.requires_grad}"
    torch.testing.assert_close(got, expected, rtol=2e-5, atol=2e-6, equal_nan=True, msg=lambda m: f"{what}: {m}")


def assert_same(got: Any, expected: Any, **tolerances: float) -> None:
    """Results of one structure: tensors that agree in dtype, strides, history and values; all else equal."""
    if isinstance(expected, (tuple, list)):
        assert type(got) is type(expected) and len(got) == len(expected)
        for ours, eagers in zip(got, expected):
            assert_same(ours, eagers, **tolerances)
    elif isinstance(expected, torch.Tensor):
        assert got.stride() == expected.stride() and got.requires_grad == expected.requires_grad
        torch.testing.assert_close(got, expected, **tolerances)
    else:
        assert got == expected


def run_and_differentiate(function: Callable, inputs: tuple) -> tuple[list, list]:
    """Outputs, and the gradients of the inputs for fixed cotangents of all outputs that have a history."""
    outputs = tensors_of(function(*inputs))
    roots = [output for output in outputs if output.requires_grad]
    generator = torch.Generator().manual_seed(7)
    cotangents = [torch.randn(root.shape, generator=generator).to(root.dtype) for root in roots]
    wanted = [x for x in tensors_of(inputs) if x.requires_grad]
    gradients = torch.autograd.grad(roots, wanted, cotangents, allow_unused=True) if roots and wanted else []
    return outputs, list(gradients)


def check(function: Callable, *inputs: Any, calls: int = 2, **options: Any) -> Callable:
    """The compiled function gives eager's outputs and gradients, twice. Returns it."""
    compiled = cdynamo.optimize(function, **options)
    expected = run_and_differentiate(function, tuple(fresh(x) for x in inputs))
    for _ in range(calls):
        got = run_and_differentiate(compiled, tuple(fresh(x) for x in inputs))
        for what, ours, eagers in zip(("output", "gradient"), got, expected):
            assert len(ours) == len(eagers), f"{len(ours)} {what}s for {len(eagers)}"
            for i, (a, b) in enumerate(zip(ours, eagers)):
                assert_close(a, b, f"{what} {i}")
    return compiled


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype).requires_grad_()


def twins(model: torch.nn.Module) -> tuple[torch.nn.Module, torch.nn.Module]:
    """The model, and the optimized view of a copy of it."""
    return model, cdynamo.optimize(copy.deepcopy(model))


def assert_same_gradients(compiled: torch.nn.Module, eager: torch.nn.Module) -> None:
    for (name, ours), (_, theirs) in zip(compiled.named_parameters(), eager.named_parameters()):
        assert_close(ours.grad, theirs.grad, name)
