"""Operators that PyTorch cannot call on tensors without content: what these give of such tensors is stated here. None
has a derivative that can be told so."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


def _stated(function: Callable, of_nothing: Callable) -> Callable:
    @functools.wraps(function)
    def call(first: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if first.device.type != "meta":
            return function(first, *args, **kwargs)
        if torch.is_grad_enabled() and first.requires_grad:
            raise NotImplementedError(f"the derivative of {call.__name__}")
        return of_nothing(first, *args, **kwargs)

    return call


def _elementwise(first: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
    return first.new_empty(torch.broadcast_shapes(first.shape, *(other.shape for other in others)))


def _count(edges: Any) -> int:
    """How many bins there are: a number, or their edges."""
    return edges.shape[0] - 1 if isinstance(edges, torch.Tensor) else edges


def _histogram(input: torch.Tensor, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    count = _count(bins)
    return torch.return_types.histogram((input.new_empty(count), input.new_empty(count + 1)))


def _least_squares(input: torch.Tensor, b: torch.Tensor, rcond: Any = None, *, driver: str = "gelsy") -> Any:
    """As of matrices of full rank; what others give is seen when they come."""
    *batch, rows, columns = input.shape
    is_vector = input.dim() == b.dim() + 1 and b.shape == input.shape[:-1]
    right = b.unsqueeze(-1) if is_vector else b
    all_batches = [*torch.broadcast_shapes(tuple(batch), right.shape[:-2])]
    # LAPACK's matrix, of which the first rows are the solution.
    solution = input.new_empty([*all_batches, right.shape[-1], max(rows, columns)]).mT[..., :columns, :]
    has_residuals = rows > columns and driver != "gelsy"
    return torch.return_types.linalg_lstsq(
        (
            solution.squeeze(-1) if is_vector else solution,
            input.new_empty([*all_batches, right.shape[-1]] if has_residuals else [0]),
            torch.empty(batch if driver != "gels" else [0], dtype=torch.int64, device="meta"),
            input.new_empty([*batch, min(rows, columns)] if driver in ("gelsd", "gelss") else [0]),
        )
    )


def _inverse_stft(
    input: torch.Tensor, n_fft: int, hop_length: Any = None, win_length: Any = None, window: Any = None,
    center: bool = True, normalized: bool = False, onesided: Any = None, length: Any = None,
    return_complex: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Of a window that overlaps as it should, which PyTorch looks at."""
    whole = n_fft + (hop_length or n_fft // 4) * (input.shape[-1] - 1)
    samples = length or (whole - n_fft // 2 * 2 if center else whole)
    dtype = input.dtype if return_complex else torch.empty(0, dtype=input.dtype, device="meta").real.dtype
    return input.new_empty([*input.shape[:-2], samples], dtype=dtype)


FUNCTIONS = {
    function: (f"aten::{function.__name__}", _stated(function, of_nothing))
    for function, of_nothing in (
        (torch._standard_gamma_grad, _elementwise),
        (torch._dirichlet_grad, _elementwise),
        (torch.histogram, _histogram),
        (torch.linalg.lstsq, _least_squares),
        (torch.istft, _inverse_stft),
    )
}
