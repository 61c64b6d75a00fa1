"""Eager, cdynamo and (if asked) torch.compile on building blocks of PyTorch programs, forward and with the backward.

    OMP_NUM_THREADS=1 python benchmarks/building_blocks.py                 # every block, process time
    OMP_NUM_THREADS=1 python benchmarks/building_blocks.py --only norm --inductor --rounds 5

One row a block and direction: the least processor time of a call in each system over the rounds (they take turns), what
eager takes of it as a ratio, the time of cdynamo's first call, and the largest errors against float64.
Rows are printed as they come; those where cdynamo is slower than another system once more at the end, the worst first.
"""

from __future__ import annotations

import argparse
import copy
import os
import time
from collections.abc import Callable

import torch
from building_block_cases import CASES

import cdynamo


def clock() -> float:
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def least_seconds(function: Callable[[], object], budget: float = 0.12) -> float:
    start = clock()
    function()
    inner = max(1, int(0.002 / max(clock() - start, 1e-7)))
    best, end = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < end or best == float("inf"):
        start = clock()
        for _ in range(inner):
            function()
        best = min(best, (clock() - start) / inner)
    return best


def tensors_of(results: object) -> list[torch.Tensor]:
    if isinstance(results, torch.Tensor):
        return [results]
    return [t for r in results for t in tensors_of(r)] if isinstance(results, (tuple, list)) else []


def leaves_of(function: Callable, args: tuple) -> list[torch.Tensor]:
    of_module = list(function.parameters()) if isinstance(function, torch.nn.Module) else []
    return of_module + [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]


def make_step(
    function: Callable, args: tuple, leaves: list[torch.Tensor], backward: bool
) -> Callable[[], list[torch.Tensor]]:
    if not backward:
        return lambda: tensors_of(function(*args))
    grad_outputs = [torch.randn(t.shape).to(t.dtype) for t in tensors_of(function(*args)) if t.requires_grad]

    def step() -> list[torch.Tensor]:
        for leaf in leaves:
            leaf.grad = None
        results = tensors_of(function(*args))
        torch.autograd.backward([t for t in results if t.requires_grad], grad_outputs)
        return results

    return step


def error(got: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    worst = 0.0
    for a, b in zip(got, exact, strict=True):
        if b is not None and b.numel() and b.is_floating_point():
            norm = b.double().norm().item()
            worst = max(worst, (a.double() - b.double()).norm().item() / max(norm, 1e-6))
    return worst


def results_and_gradients(
    function: Callable, args: tuple, leaves: list[torch.Tensor], backward: bool
) -> list[torch.Tensor]:
    torch.manual_seed(1)
    results = make_step(function, args, leaves, backward)()
    return [t.detach().clone() for t in results] + [
        leaf.grad.clone() for leaf in leaves if backward and leaf.grad is not None
    ]


def doubled(function: Callable, args: tuple) -> tuple[Callable, tuple]:
    function = copy.deepcopy(function).double() if isinstance(function, torch.nn.Module) else function

    def double(value: object) -> object:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.detach().double().requires_grad_(value.requires_grad)
        return [double(v) for v in value] if isinstance(value, list) else value

    return function, tuple(double(a) for a in args)


def compare(name: str, make: Callable, backward: bool, options: argparse.Namespace) -> dict:
    torch.manual_seed(0)
    torch._dynamo.reset()
    cdynamo.reset()
    function, args = make()
    for a in args:
        if isinstance(a, torch.Tensor) and a.is_floating_point():
            a.requires_grad_(backward)
    leaves = leaves_of(function, args)
    if backward and not leaves:
        return {}
    state = copy.deepcopy(function.state_dict()) if isinstance(function, torch.nn.Module) else None
    wide, wide_args = doubled(function, args)
    exact = results_and_gradients(wide, wide_args, leaves_of(wide, wide_args), backward)
    systems = {"eager": function, "cdynamo": cdynamo.optimize(function)}
    if options.inductor:
        systems["inductor"] = torch.compile(function)
    errors, firsts, steps = {}, {}, {}
    for key, system in systems.items():
        if state:
            function.load_state_dict(state)
        start = time.perf_counter()
        errors[key] = error(results_and_gradients(system, args, leaves, backward), exact)
        firsts[key] = time.perf_counter() - start
        steps[key] = make_step(system, args, leaves, backward)
    best = dict.fromkeys(systems, float("inf"))
    for _ in range(options.rounds):
        for key, step in steps.items():
            best[key] = min(best[key], least_seconds(step))
    others = min(seconds for key, seconds in best.items() if key != "cdynamo")
    row = {"name": name + (" +backward" if backward else ""), "ratio": others / best["cdynamo"]}
    cells = "   ".join(f"{key} {seconds * 1e6:9.1f} us" for key, seconds in best.items())
    row["text"] = (
        f"{row['name']:38s} {row['ratio']:5.2f}x   {cells}   first {firsts['cdynamo'] * 1e3:6.1f} ms   "
        f"error {errors['cdynamo']:.1e} (eager {errors['eager']:.1e})"
    )
    if errors["cdynamo"] > 3 * errors["eager"] + 1e-7:
        row["text"] += "  LARGER"
    print(row["text"], flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts of block names, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--inductor", action="store_true", help="torch.compile too; its first calls are slow")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    wanted = [part for part in options.only.split(",") if part]
    rows = []
    for name, make in CASES.items():
        if wanted and not any(part in name for part in wanted):
            continue
        for backward in (False, True):
            torch.set_grad_enabled(backward)
            try:
                rows.append(compare(name, make, backward, options))
            except Exception as reason:  # a block that one system does not run is reported, and the others go on
                print(f"{name} failed: {type(reason).__name__}: {str(reason)[:200]}", flush=True)
    slower = sorted((row for row in rows if row and row["ratio"] < 1), key=lambda row: row["ratio"])
    print(f"\nslower than the best other system: {len(slower)} of {len([row for row in rows if row])}")
    for row in slower:
        print(row["text"])


if __name__ == "__main__":
    main()
