"""A small GPT learns a page of text, letter by letter: eager and compiled, the same losses.

python examples/train_gpt.py                 # 200 steps of each; draws train_gpt.svg
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from models import GPT
from training import compare

LENGTH, BATCH = 64, 8


def main() -> None:
    text = (Path(__file__).parent / "lighthouse.txt").read_text()
    letters = sorted(set(text))
    tokens = torch.tensor([letters.index(letter) for letter in text])

    def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(step)
        starts = torch.randint(0, len(tokens) - LENGTH - 1, (BATCH,), generator=generator)
        windows = torch.stack([tokens[start : start + LENGTH + 1] for start in starts])
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()

    def loss(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    torch.manual_seed(0)
    model = GPT(layers=2, width=64, heads=4, vocabulary=len(letters))
    compare("A small GPT", model, loss, batch, lambda p: torch.optim.AdamW(p, lr=3e-3), tolerance=2e-2)


if __name__ == "__main__":
    main()
