"""Models that are trained: what a case is to the training benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import torch  # noqa: E402
from models import GPT, MLP, MultiHeadAttention, ResNetBlock  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402


def _attention() -> tuple[torch.nn.Module, tuple]:
    x = torch.randn(2, 256, 512)
    return MultiHeadAttention(512, 8), (x, x, x)


class CheckpointedGPT(GPT):
    """Each block is a checkpoint: it is computed again for its backward."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(self.norm(x))


def _gpt(kind: type[GPT], layers: int) -> Callable[[], tuple[torch.nn.Module, tuple]]:
    def case() -> tuple[torch.nn.Module, tuple]:
        return kind(layers=layers, width=256, heads=4, vocabulary=1000), (torch.randint(0, 1000, (4, 64)),)

    return case


CASES: dict[str, Callable[[], tuple[torch.nn.Module, tuple]]] = {
    "mlp": lambda: (MLP(), (torch.randn(128, 512),)),
    "resnet_block": lambda: (ResNetBlock(64, 64), (torch.randn(4, 64, 56, 56),)),
    "attention": _attention,
    "gpt_4_layers": _gpt(GPT, 4),
    "gpt_12_layers": _gpt(GPT, 12),
    "gpt_12_checkpoints": _gpt(CheckpointedGPT, 12),
}


def step_of(model: torch.nn.Module, called: Callable, args: tuple) -> Callable[[], None]:
    """Forward, loss, backward; gradients are made anew each time."""

    def step() -> None:
        model.zero_grad(set_to_none=True)
        called(*args).float().square().mean().backward()

    return step
