"""Eager, torch.compile and cdynamo on the examples' PyTorch programs, and NumPy and cdynamo on the NumPy ones, in turn.

    python benchmarks/side_by_side.py                    # every program
    python benchmarks/side_by_side.py --only softmax,GPT --rounds 5 --no-inductor

One row a program: the least time of a call in each system over the rounds (they take turns, since machines are noisy),
the ratio to eager, and the time of cdynamo's first call.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import numpy_programs as longer_programs  # noqa: E402
from programs import numpy_programs, torch_programs  # noqa: E402

import cdynamo  # noqa: E402


def least_seconds(function: Callable, args: tuple, budget: float = 0.2) -> float:
    start = time.perf_counter()
    function(*args)
    inner = max(1, int(0.002 / max(time.perf_counter() - start, 1e-7)))
    best, end = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(inner):
            function(*args)
        best = min(best, (time.perf_counter() - start) / inner)
    return best


def compare(name: str, function: Callable, args: tuple, rounds: int, inductor: bool) -> None:
    systems = {"eager": function, "cdynamo": cdynamo.optimize(function)}
    if inductor:
        import torch

        systems["torch.compile"] = torch.compile(function)
    start = time.perf_counter()
    systems["cdynamo"](*args)
    first = time.perf_counter() - start
    for system in systems.values():
        system(*args)
    best = dict.fromkeys(systems, float("inf"))
    for _ in range(rounds):
        for key, system in systems.items():
            best[key] = min(best[key], least_seconds(system, args))
    cells = [f"{key} {seconds * 1e6:10.1f} us ({best['eager'] / seconds:5.2f}x)" for key, seconds in best.items()]
    print(f"{name:28s} {'   '.join(cells)}   first call {first * 1e3:7.1f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts of program names, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-inductor", action="store_true", help="leave torch.compile out")
    options = parser.parse_args()
    wanted = [part for part in options.only.split(",") if part]

    def chosen(name: str) -> bool:
        return not wanted or any(part in name for part in wanted)

    for name, function, args in (*numpy_programs(), *longer_programs.programs()):
        if chosen("numpy " + name):
            compare("numpy " + name, function, args, options.rounds, inductor=False)
    if importlib.util.find_spec("torch"):
        importlib.import_module("torch").set_grad_enabled(False)
    for name, function, args in torch_programs():
        if chosen("torch " + name):
            compare("torch " + name, function, args, options.rounds, not options.no_inductor)


if __name__ == "__main__":
    main()
