"""A small ResNet learns to tell stripes, by their direction and width: eager and compiled, the same losses.

python examples/train_resnet.py              # 200 steps of each; draws train_resnet.svg
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from models import ResNet
from training import compare

CLASSES, SIZE, BATCH = 8, 32, 8


def images(labels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Stripes of four directions and two widths, in noise; three colors with phases of their own."""
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    angle = (labels % 4)[:, None, None] * (math.pi / 4)
    frequency = torch.where(labels < 4, 0.4, 0.9)[:, None, None]
    wave = (rows * angle.cos() + columns * angle.sin()) * frequency
    phase = torch.rand(len(labels), 3, 1, 1, generator=generator) * 2 * math.pi
    noise = torch.randn(len(labels), 3, SIZE, SIZE, generator=generator)
    return (wave[:, None] + phase).sin() + 0.7 * noise


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    labels = torch.randint(0, CLASSES, (BATCH,), generator=generator)
    return images(labels, generator), labels


def loss(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


def main() -> None:
    torch.manual_seed(0)
    model = ResNet((1, 1), classes=CLASSES)
    compare("A small ResNet", model, loss, batch, lambda p: torch.optim.SGD(p, lr=5e-3, momentum=0.9), tolerance=2e-2)


if __name__ == "__main__":
    main()
