"""What the training examples share: the same training eager and compiled, compared and drawn."""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from curves import as_blocks, draw
from torch import nn

import cdynamo

Batches = Callable[[int], tuple[torch.Tensor, ...]]
Loss = Callable[..., torch.Tensor]


def train(model: nn.Module, loss: Loss, batches: Batches, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
    """One loss a step. Gradients are clipped, as is usual, outside of what is compiled."""
    curve = []
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        value = loss(model, *batches(step))
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        curve.append(value.item())
    return curve


def compare(
    title: str, model: nn.Module, loss: Loss, batches: Batches, make_optimizer: Callable, tolerance: float
) -> None:
    """Trains `model` and a compiled copy of it on the same batches; exits with 1 where the curves differ by more.

    `tolerance` is relative to the larger of the loss and a tenth of the first loss: rounding differs, and training
    amplifies what differs.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--picture", type=Path, default=Path(sys.argv[0]).with_suffix(".svg").name)
    options = parser.parse_args()

    compiled = cdynamo.optimize(copy.deepcopy(model))
    curves, before = {}, cdynamo.counters()
    for name, trained in (("eager", model), ("cdynamo", compiled)):
        torch.manual_seed(1)
        start = time.perf_counter()
        curves[name] = train(trained, loss, batches, make_optimizer(trained.parameters()), options.steps)
        seconds = time.perf_counter() - start
        print(f"{name:8s} {as_blocks(curves[name])}  {curves[name][0]:.4f} -> {curves[name][-1]:.4f}  {seconds:.1f} s")
    made = {key: value - before[key] for key, value in cdynamo.counters().items()}
    print(f"{made['graphs_compiled']} graphs, {made['graph_breaks']} graph breaks, {made['recompiles']} recompilations")

    draw(Path(options.picture), title, curves)
    floor = 0.1 * curves["eager"][0]
    worst = max(abs(a - b) / max(abs(b), floor) for a, b in zip(curves["cdynamo"], curves["eager"]))
    print(f"largest difference {worst:.1e} (allowed {tolerance:.0e}); {options.picture} shows both")
    sys.exit(worst > tolerance)
