"""How compile time grows with the program: chains of every kind of read, wide programs, many outputs.

    python benchmarks/compile_time.py                     # every case at 30 and at 300 steps
    python benchmarks/compile_time.py roll pad --steps 3,30,300 --backward

Each case runs in a process of its own, without the kernel cache on disk: the time of the first call, how often
longer it is than that of the shortest program, and how fast the compiled program runs beside eager.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

import cdynamo

Step = Callable[[torch.Tensor, int], torch.Tensor]

SIDE = 64
INDEX = torch.randperm(SIDE, generator=torch.Generator().manual_seed(0))


def laplace(u: torch.Tensor, _: int) -> torch.Tensor:
    return u + 0.1 * (torch.roll(u, 1, 0) - 2 * u + torch.roll(u, -1, 0))


def padded_laplace(u: torch.Tensor, _: int) -> torch.Tensor:
    p = F.pad(u, (1, 1))
    return u + 0.1 * (p[:, 2:] - 2 * u + p[:, :-2])


def unfolded(u: torch.Tensor, _: int) -> torch.Tensor:
    return F.pad(u, (1, 1)).unfold(1, 3, 1).sum(-1) * 0.3


# One step of a chain over a square matrix, for each kind of read.
STEPS: dict[str, Step] = {
    "plain": lambda u, i: u * 1.001 + 0.1,
    "plain_two": lambda u, i: (u + 0.1) * (u - 0.1) * 0.5 + 0.3,
    "roll": lambda u, i: torch.roll(u, 1, 0),
    "roll_sum": lambda u, i: (torch.roll(u, 1, 0) + torch.roll(u, 1, 1)) * 0.5,
    "laplace": laplace,
    "pad": padded_laplace,
    "pad_slice": lambda u, i: F.pad(u, (1, 0))[:, :-1] * 0.5 + u,
    "flip": lambda u, i: u.flip(0) * 0.5 + u.flip(1) * 0.5,
    "slice": lambda u, i: torch.cat([u[:, 1:], u[:, :1]], 1) * 0.5 + u,
    "gather": lambda u, i: u[INDEX] * 0.5 + u[:, INDEX] * 0.5,
    "gather_own": lambda u, i: u.gather(1, (u.abs() * 7).long() % SIDE) * 0.5 + u * 0.5,
    "window": unfolded,
    "max_pool": lambda u, i: F.max_pool2d(u[None], 3, 1, 1)[0] * 0.9,
    "cat": lambda u, i: torch.cat([u[SIDE // 2 :], u[: SIDE // 2]]) + u * 0.1,
    "transpose": lambda u, i: u.t() * 0.5 + u * 0.5,
    "reshape": lambda u, i: u.reshape(SIDE // 2, 2 * SIDE).t().reshape(SIDE, SIDE) * 0.5 + u,
    "broadcast": lambda u, i: u * 0.5 + u[:, :1] * 0.3 + u[:1] * 0.1,
    "diagonal": lambda u, i: u * 0.9 + torch.diagonal(u)[:, None] * 0.1,
    "write": lambda u, i: u.slice_scatter(u[:, :8] * 0.5, 1, i % 8, i % 8 + 8),
    "softmax": lambda u, i: torch.softmax(u, 1) + u * 0.1,
    "mean": lambda u, i: u - u.mean(0) * 0.1 + u.mean(1, keepdim=True) * 0.1,
    "cumsum": lambda u, i: u.cumsum(1) * 0.01 + u,
    "scatter": lambda u, i: u.index_add(0, INDEX, u * 0.5),
    "product": lambda u, i: torch.tanh(u @ u) * 0.1 + u,
    "where": lambda u, i: torch.where(u > 0, torch.roll(u, 1, 1), u * 0.5),
}


def chain(step: Step, steps: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def program(u: torch.Tensor) -> torch.Tensor:
        for i in range(steps):
            u = step(u, i)
        return u

    return program


def in_place(steps: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def program(u: torch.Tensor) -> torch.Tensor:
        u = u.clone()
        for i in range(steps):
            u[i % SIDE] += u[(i + 1) % SIDE] * 0.5
        return u

    return program


# Programs that are wide rather than deep: from their size to a function and its inputs.
def many_outputs(n: int) -> tuple[Callable, list]:
    return lambda *tensors: [a + 1 for a in tensors], [torch.randn(8) for _ in range(n)]


def many_readers(n: int) -> tuple[Callable, list]:
    return lambda x: [x * float(i) for i in range(n)], [torch.randn(64)]


def many_readers_of_one(n: int) -> tuple[Callable, list]:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        return torch.stack([(y * float(i)).sum() for i in range(n)])

    return program, [torch.randn(64)]


def wide_sum(n: int) -> tuple[Callable, list]:
    def program(*tensors: torch.Tensor) -> torch.Tensor:
        total = tensors[0]
        for a in tensors:
            total = total + a.sin() * 2
        return total

    return program, [torch.randn(64) for _ in range(n)]


def wide_cat(n: int) -> tuple[Callable, list]:
    return lambda x: torch.cat([x[i : i + 8] * float(i) for i in range(n)]), [torch.randn(n + 8)]


def independent(n: int) -> tuple[Callable, list]:
    def program(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.softmax(x[i % 8] * float(i), 0) for i in range(n)]

    return program, [torch.randn(8, 64)]


def diamond(n: int) -> tuple[Callable, list]:
    def program(x: torch.Tensor) -> torch.Tensor:
        kept = [x]
        for i in range(n):
            kept.append((kept[i // 2] + kept[-1]) * 0.5)
        return kept[-1] + kept[n // 3]

    return program, [torch.randn(64)]


WIDE = {
    f.__name__: f for f in (many_outputs, many_readers, many_readers_of_one, wide_sum, wide_cat, independent, diamond)
}


def measure(name: str, steps: int, backward: bool) -> dict[str, float]:
    """In this process: seconds of the first call, kernels, graphs, eager's time over the compiled one's."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if name in WIDE:
        program, inputs = WIDE[name](steps)
    elif name == "in_place":
        program, inputs = in_place(steps), [torch.randn(SIDE, SIDE)]
    else:
        program, inputs = chain(STEPS[name], steps), [torch.randn(SIDE, SIDE)]
    if backward:
        inputs = [x.requires_grad_() for x in inputs]

    def run(function: Callable) -> list[torch.Tensor]:
        result = function(*inputs)
        results = result if isinstance(result, list) else [result]
        if backward:
            return list(torch.autograd.grad([r.sum() for r in results], inputs)) + results
        return results

    cdynamo.config.disk_cache = False
    cdynamo.optimize(lambda x: x + 1)(torch.ones(3))  # what is loaded once
    fast = cdynamo.optimize(program)
    start = time.perf_counter()
    results = run(fast)
    first = time.perf_counter() - start
    expected = run(program)
    worst = max(((a - b).abs().max() / (1 + b.abs().max())).item() for a, b in zip(results, expected, strict=True))
    times = {}
    for function in (program, fast):
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            run(function)
            best = min(best, time.perf_counter() - start)
        times[function is fast] = best
    counters = cdynamo.counters()
    return {
        "seconds": first,
        "kernels": counters["kernels_compiled"],
        "graphs": counters["graphs_compiled"],
        "speed": times[False] / times[True],
        "worst": worst,
    }


def in_own_process(name: str, steps: int, backward: bool, limit: float) -> dict[str, float] | None:
    command = [sys.executable, __file__, name, "--steps", str(steps), "--measure"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command + ["--backward"] * backward, env=environment, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        print(f"{name}: exit status {done.returncode}: {done.stderr[-300:]}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=", ".join([*STEPS, "in_place", *WIDE]))
    parser.add_argument("--steps", default="30,300")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--limit", type=float, default=100, help="seconds a process may take")
    parser.add_argument("--measure", action="store_true", help="one case, in this process")
    options = parser.parse_args()
    steps = [int(n) for n in options.steps.split(",")]
    if options.measure:
        print(json.dumps(measure(options.cases[0], steps[0], options.backward)))
        return
    for name in options.cases or [*STEPS, "in_place", *WIDE]:
        cells, base = [], None
        for n in steps:
            result = in_own_process(name, n, options.backward, options.limit)
            if result is None:
                cells.append(f"{n}: failed or over {options.limit:.0f} s")
                break
            base = base or result["seconds"]
            cells.append(
                f"{n}: {result['seconds']:6.2f} s ({result['seconds'] / base:5.1f}x, {result['kernels']} kernels, "
                f"{result['graphs']} graphs, {result['speed']:5.2f} of eager, off by {result['worst']:.0e})"
            )
        print(f"{name:20s} {'   '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
