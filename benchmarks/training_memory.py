"""Peak memory of a training step, eager against compiled.

    python benchmarks/training_memory.py
    python benchmarks/training_memory.py --budget 0.5      # cdynamo.config.memory_budget

Each case and system runs in a process of its own, in which peak_heap.c (built with cc, preloaded) counts the large
blocks of the heap: tensors, what is kept for the backward, compiled code's arenas, a library's buffers. "peak": of the
third step, above what is alive between steps. "idle": alive between steps, besides parameters and inputs: compiled code
itself, a library's buffers.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def build_counter(folder: str) -> str:
    library = str(Path(folder) / "peak_heap.so")
    source = Path(__file__).with_name("peak_heap.c")
    done = subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"training_memory: cc could not build {source.name}: {done.stderr}")
    return library


def worker(case: str, system: str, budget: float) -> None:
    from training_cases import CASES, step_of, torch

    import cdynamo

    heap = ctypes.CDLL(None)
    for name in ("peak_heap_live", "peak_heap_peak"):
        getattr(heap, name).restype = ctypes.c_longlong
    torch.manual_seed(0)
    model, args = CASES[case]()
    cdynamo.config.memory_budget = budget
    step = step_of(model, model if system == "eager" else cdynamo.optimize(model), args)
    before = heap.peak_heap_live()
    step()
    step()
    model.zero_grad(set_to_none=True)
    gc.collect()
    idle = heap.peak_heap_live()
    heap.peak_heap_restart()
    step()
    print(json.dumps([heap.peak_heap_peak() - idle, idle - before]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=1.0)
    parser.add_argument("--only", default="", help="names of cases, separated by commas")
    parser.add_argument("--worker", nargs=2, metavar=("CASE", "SYSTEM"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(*options.worker, options.budget)
    from training_cases import CASES

    print(
        f"{'case':14s} {'peak, MB: eager':>16s} {'cdynamo':>8s} {'ratio':>6s} {'idle, MB: eager':>17s} {'cdynamo':>8s}"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LD_PRELOAD": build_counter(folder)}
        for case in CASES:
            if options.only and case not in options.only.split(","):
                continue
            peaks, idle = [], []
            for system in ("eager", "cdynamo"):
                command = [sys.executable, __file__, "--budget", str(options.budget), "--worker", case, system]
                done = subprocess.run(command, capture_output=True, text=True, env=environment)
                if done.returncode:
                    sys.exit(done.stderr)
                for column, value in zip((peaks, idle), json.loads(done.stdout.splitlines()[-1])):
                    column.append(value / 1e6)
            print(f"{case:14s} {peaks[0]:16.2f} {peaks[1]:8.2f} {peaks[1] / peaks[0]:6.2f}", end=" ")
            print(f"{idle[0]:17.2f} {idle[1]:8.2f}", flush=True)


if __name__ == "__main__":
    main()
