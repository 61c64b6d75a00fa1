"""A tour: programs of the field's own tutorials, eager and compiled; a training loop; a graph, a log, a break report.

python examples/tour.py            # NumPy first, then PyTorch where it is installed
python examples/tour.py --quick    # fewer timing rounds
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from curves import as_blocks
from programs import numpy_programs, torch_programs

import cdynamo


def seconds_per_call(function: Callable, args: tuple, budget: float) -> float:
    """The median time of a call, after a warm-up, within about `budget` seconds."""
    function(*args)
    start = time.perf_counter()
    function(*args)
    once = time.perf_counter() - start
    inner = max(1, int(0.002 / max(once, 1e-7)))
    rounds = max(3, min(30, int(budget / max(once * inner, 1e-7))))
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(inner):
            function(*args)
        times.append((time.perf_counter() - start) / inner)
    return statistics.median(times)


def difference(a: Any, b: Any) -> float:
    """The relative distance (2-norm) between two results."""
    if isinstance(a, (tuple, list)):
        return max(difference(x, y) for x, y in zip(a, b))
    x, y = (np.asarray(getattr(v, "detach", lambda v=v: v)(), dtype=np.float64) for v in (a, b))
    return float(np.linalg.norm(x - y) / max(np.linalg.norm(y), 1e-30))


def show(name: str, function: Callable, args: tuple, budget: float) -> None:
    expected = function(*args)
    optimized = cdynamo.optimize(function)
    before = cdynamo.counters()
    start = time.perf_counter()
    got = optimized(*args)
    first = time.perf_counter() - start
    after = cdynamo.counters()
    eager, compiled = seconds_per_call(function, args, budget), seconds_per_call(optimized, args, budget)
    made = {key: after[key] - before[key] for key in after}
    kernels = made["kernels_compiled"] + made["kernels_from_disk"]
    print(
        f"{name:26s} {eager * 1e6:11.1f} {compiled * 1e6:11.1f} {eager / compiled:7.2f}x {first * 1e3:9.1f} "
        f"{made['graphs_compiled']:7d} {made['graph_breaks']:7d} {kernels:8d}  {difference(got, expected):.0e}",
        flush=True,
    )


def show_programs(budget: float) -> None:
    print(f"{'program':26s} {'eager us':>11s} {'compiled us':>11s} {'ratio':>8s} {'first ms':>9s}", end="")
    print(f" {'graphs':>7s} {'breaks':>7s} {'kernels':>8s}  error")
    for name, function, args in numpy_programs():
        show("numpy " + name, function, args, budget)
    if importlib.util.find_spec("torch"):
        with importlib.import_module("torch").no_grad():
            for name, function, args in torch_programs():
                show("torch " + name, function, args, budget)


def show_training() -> None:
    """A program with a training loop: forward and backward are compiled, the loop and its optimizer are the user's."""
    import torch
    from models import GPT

    torch.manual_seed(0)
    model = GPT(layers=2, width=64, heads=4, vocabulary=100)
    tokens = torch.randint(0, 100, (4, 33))
    start = {name: value.clone() for name, value in model.state_dict().items()}
    print("\n--- training: a GPT of 2 layers learns 4 sequences by heart, 60 steps of AdamW")
    for name, trained in (("eager", model), ("compiled", cdynamo.optimize(model))):
        model.load_state_dict(start)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        curve, seconds = [], []
        for _ in range(60):
            begin = time.perf_counter()
            optimizer.zero_grad()
            logits = trained(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            seconds.append(time.perf_counter() - begin)
            curve.append(loss.item())
        milliseconds = statistics.median(seconds) * 1e3
        print(f"{name:9s}{as_blocks(curve)}  loss {curve[0]:.3f} -> {curve[-1]:.3f}, {milliseconds:.1f} ms a step")


def show_reports() -> None:
    def standardize(x: np.ndarray) -> np.ndarray:
        return (x - x.mean(axis=0)) / x.std(axis=0)

    def with_a_break(x: np.ndarray) -> np.ndarray:
        y = np.exp(-x)
        print("    (the program prints: the largest is", round(float(y.max()), 3), end=")\n")
        return y / (1 + y)

    x = np.linspace(0.0, 1.0, 12).reshape(4, 3)
    print("\n--- one graph: explain(standardize)(x)")
    print(cdynamo.explain(standardize)(x))

    print("\n--- a recompilation log: set_logs(recompiles=True), x of 4, 5, 6 and 7 rows")
    cdynamo.set_logs(recompiles=True)
    optimized = cdynamo.optimize(standardize)
    for rows in (4, 5, 6, 7):
        optimized(np.ones((rows, 3)) * np.arange(1.0, rows + 1)[:, None])
        print(f"    {rows} rows: graphs compiled so far {cdynamo.counters()['graphs_compiled']}")
    cdynamo.set_logs(recompiles=False)

    print("\n--- a graph break: explain(with_a_break)(x)")
    for record in cdynamo.explain(with_a_break)(x).breaks:
        print(record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer timing rounds")
    budget = 0.05 if parser.parse_args().quick else 0.5
    show_programs(budget)
    if importlib.util.find_spec("torch"):
        show_training()
    show_reports()


if __name__ == "__main__":
    main()
