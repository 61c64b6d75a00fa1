"""torch.ctc_loss of tensors without content: PyTorch reads the lengths, and has no derivative there."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes


class _OfNothing(torch.autograd.Function):
    """What there is of the loss to learn: its sizes, what is saved, and how the gradient lies."""

    @staticmethod
    def forward(ctx: Any, log_probs: torch.Tensor, targets: torch.Tensor, sizes: tuple[int, ...]) -> torch.Tensor:
        ctx.save_for_backward(log_probs, targets)
        return log_probs.new_empty(sizes)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        log_probs, _ = ctx.saved_tensors
        return log_probs.new_empty(log_probs.shape), None, None


def ctc_loss(
    log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: Any, target_lengths: Any, *args: Any, **kwargs: Any
) -> torch.Tensor:
    if log_probs.device.type != "meta":
        return torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, *args, **kwargs)
    batch = log_probs.shape[1] if log_probs.dim() == 3 else 1
    with torch.no_grad(), _disable_current_modes():  # its inner results have sizes that depend on the lengths
        lengths = (log_probs.shape[0],) * batch, (1,) * batch
        loss = torch.ctc_loss(
            log_probs.reshape(-1, batch, log_probs.shape[-1]), targets.new_empty(batch, 1), *lengths, *args, **kwargs
        )
    return _OfNothing.apply(log_probs, targets, loss.shape if log_probs.dim() == 3 else ())
