"""cdynamo beside eager and torch.compile on a CUDA device: microseconds a call, ratios to eager, and of what memory
bounds its share of the bandwidth that a device copy has in the same run.

    python benchmarks/gpu.py                     # eager, torch.compile, cdynamo in both modes
    python benchmarks/gpu.py --systems eager,cdynamo --cases softmax,tiny
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

import cdynamo

DEVICE = "cuda"


@dataclass
class Case:
    make: Callable[[], tuple[Callable, tuple]]  # a function or a module, and its arguments
    bytes: int = 0  # that have to be read and written, where that bounds it
    trains: bool = False


def randn(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, device=DEVICE)


def softmax(x):
    e = torch.exp(x - x.max(dim=-1, keepdim=True).values)
    return e / e.sum(dim=-1, keepdim=True)


def perceptron() -> nn.Module:
    layers = [nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)]
    return nn.Sequential(*layers).to(DEVICE)


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(2))
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, size = x.shape
        heads = (
            t.view(batch, length, self.heads, size // self.heads).transpose(1, 2)
            for t in self.qkv(self.norms[0](x)).chunk(3, -1)
        )
        attended = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, size))
        return x + self.down(F.gelu(self.up(self.norms[1](x)), approximate="tanh"))


class ByHand(nn.Module):
    """Attention as products and a softmax."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(size, size) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            project(x).view(*x.shape[:2], self.heads, -1).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(x.shape))


class Residual(nn.Module):
    """A block of a ResNet."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(size, size, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(size) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norms[0](self.convolutions[0](x)))
        return torch.relu(self.norms[1](self.convolutions[1](inner)) + x)


def residuals(count: int, size: int) -> nn.Module:
    return nn.Sequential(*(Residual(size) for _ in range(count))).to(DEVICE)


def blocks(count: int, size: int, heads: int) -> nn.Module:
    return nn.Sequential(*(Block(size, heads) for _ in range(count))).to(DEVICE)


N = 100_000_000
CASES = {
    "sin^2 + cos^2": Case(lambda: (lambda x: torch.sin(x) ** 2 + torch.cos(x) ** 2, (randn(N),)), 8 * N),
    "sum of exp cos sin": Case(lambda: (lambda x: x.sin().cos().exp().sum(), (randn(N),)), 4 * N),
    "softmax": Case(lambda: (softmax, (randn(16384, 2048),)), 8 * 16384 * 2048),
    "layer norm, gelu": Case(
        lambda: (nn.Sequential(nn.LayerNorm(1024), nn.GELU()).to(DEVICE), (randn(32768, 1024),)), 8 * 32768 * 1024
    ),
    "tiny": Case(lambda: (lambda x, y: x * y + 1.0, (randn(4), randn(4)))),
    "perceptron": Case(lambda: (perceptron(), (randn(128, 512),))),
    "perceptron, one row": Case(lambda: (perceptron(), (randn(1, 512),))),
    "12 blocks, 1 x 64": Case(lambda: (blocks(12, 768, 12), (randn(1, 64, 768),))),
    "perceptron, training": Case(lambda: (perceptron(), (randn(128, 512),)), trains=True),
    "4 blocks, training": Case(lambda: (blocks(4, 256, 4), (randn(4, 512, 256),)), trains=True),
    "attention": Case(lambda: (ByHand(512, 8).to(DEVICE), (randn(32, 1024, 512),))),
    "attention, training": Case(lambda: (ByHand(512, 8).to(DEVICE), (randn(32, 1024, 512),)), trains=True),
    "scan of rows": Case(lambda: (lambda x: x.cumsum(-1), (randn(4096, 4096),)), 8 * 4096 * 4096),
    "scan across rows": Case(lambda: (lambda x: x.cumsum(0), (randn(4096, 4096),)), 8 * 4096 * 4096),
    "scan of one row": Case(lambda: (lambda x: x.cumsum(-1), (randn(1 << 24),)), 8 << 24),
    "sum under a mask": Case(lambda: (lambda x, m: x[m].sum(), (randn(1 << 24), randn(1 << 24) > 0)), 5 << 24),
    "what a mask selects": Case(lambda: (lambda x, m: x[m], (randn(1 << 24), randn(1 << 24) > 0))),
    "residual block": Case(lambda: (residuals(1, 64), (randn(32, 64, 56, 56),))),
    "residual, training": Case(lambda: (residuals(1, 64), (randn(32, 64, 56, 56),)), trains=True),
    "4 residuals": Case(lambda: (residuals(4, 128), (randn(32, 128, 28, 28),))),
    "4 residuals, training": Case(lambda: (residuals(4, 128), (randn(32, 128, 28, 28),)), trains=True),
}
SYSTEMS = {
    "eager": lambda f: f,
    "torch.compile": torch.compile,
    "torch.compile:reduce-overhead": lambda f: torch.compile(f, mode="reduce-overhead"),
    "cdynamo": cdynamo.optimize,
    "cdynamo:reduce-overhead": lambda f: cdynamo.optimize(f, mode="reduce-overhead"),
}


def seconds(call: Callable[[], object]) -> float:
    """The least of some rounds, each long enough to hide the wait for the device."""
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    calls = max(1, min(500, int(2e-3 / (time.perf_counter() - start))))
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def copy_seconds() -> float:
    x = randn(N)
    y = torch.empty_like(x)
    return seconds(lambda: y.copy_(x))


def step_of(case: Case, function: Callable, run: Callable, args: tuple) -> Callable[[], object]:
    if not case.trains:
        return lambda: run(*args)

    def step() -> None:
        function.zero_grad(set_to_none=True)
        run(*args).square().mean().backward()

    return step


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="comma list")
    parser.add_argument("--cases", default="", help="comma list of the beginnings of names")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no CUDA device")
        return 0
    bandwidth = 8 * N / copy_seconds()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; a copy: {bandwidth / 1e12:.2f} TB/s")
    for name, case in CASES.items():
        if options.cases and not name.startswith(tuple(options.cases.split(","))):
            continue
        function, args = case.make()
        if isinstance(function, nn.Module):
            function.train(case.trains)
        eager = None
        with torch.set_grad_enabled(case.trains):
            for system in options.systems.split(","):
                run = SYSTEMS[system](function)
                start = time.perf_counter()
                step_of(case, function, run, args)()
                torch.cuda.synchronize()
                first = time.perf_counter() - start
                took = seconds(step_of(case, function, run, args))
                eager = eager or took
                share = f"{case.bytes / took / bandwidth:6.0%} of a copy" if case.bytes else ""
                print(
                    f"{name:22} {system:32} first {first * 1e3:8.1f} ms  {took * 1e6:9.1f} us  {eager / took:5.2f}x"
                    f"  {share}",
                    flush=True,
                )
                torch._dynamo.reset()
    return 0


if __name__ == "__main__":
    sys.exit(main())
