"""Forward and backward of (x * y + 1).sum() with inputs of 4 elements that require grad: what a call costs.

    python benchmarks/small_step.py                  # eager and cdynamo
    python benchmarks/small_step.py --inductor       # and torch.compile

The systems take turns; the least time of each is shown, and its ratio to eager's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

import cdynamo


def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * y + 1).sum()


def least_microseconds(call: Callable, x: torch.Tensor, y: torch.Tensor, calls: int = 500) -> dict[str, float]:
    """Of the forward alone, and of forward and backward."""
    start = time.perf_counter()
    for _ in range(calls):
        call(x, y)
    forward = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(calls):
        call(x, y).backward()
        x.grad = y.grad = None
    both = time.perf_counter() - start
    return {"forward": forward / calls * 1e6, "forward and backward": both / calls * 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--inductor", action="store_true", help="torch.compile too")
    options = parser.parse_args()
    systems = {"eager": function, "cdynamo": cdynamo.optimize(function)}
    if options.inductor:
        systems["torch.compile"] = torch.compile(function)
    x, y = (torch.randn(4, requires_grad=True) for _ in range(2))
    best: dict[str, dict[str, float]] = {}
    for _ in range(options.rounds):
        for name, call in systems.items():
            times = least_microseconds(call, x, y)
            best[name] = {key: min(value, best.get(name, times)[key]) for key, value in times.items()}
    for name, times in best.items():
        cells = [f"{key} {value:6.2f} us ({best['eager'][key] / value:4.2f}x)" for key, value in times.items()]
        print(f"{name:14s} {'   '.join(cells)}")


if __name__ == "__main__":
    main()
