"""Where a step of a model of transformers goes on a CUDA device: its kernels by the time they take, for each system.

python benchmarks/gpu_kernels.py --models bert,llama --dtype float32 --systems torch.compile,cdynamo
"""

from __future__ import annotations

import argparse
import collections
import sys
import time

from gpu_transformers import MODELS, prepare, run_system


def profile(name: str, dtype: str, training: bool, system: str, most: int) -> None:
    import torch
    from torch.profiler import ProfilerActivity

    model, batch = prepare(name, dtype, training)
    fast = run_system(system, model)

    def step() -> None:
        with torch.set_grad_enabled(training):
            out = fast(**batch)
        if training:
            model.zero_grad(set_to_none=True)
            out.loss.backward()

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    best = float("inf")
    for _ in range(12):
        start = time.perf_counter()
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / 3)
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(3):
            step()
        torch.cuda.synchronize()
    kernels: dict[str, list[float]] = collections.defaultdict(list)
    for event in found.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            kernels[event.name].append(event.time_range.elapsed_us())
    busy = sum(map(sum, kernels.values())) / 3e3
    launches = sum(map(len, kernels.values())) / 3
    print(f"{name} {dtype} {system}: {best * 1e3:.3f} ms a step, of that {busy:.3f} ms in {launches:.0f} launches")
    for kernel, took in sorted(kernels.items(), key=lambda row: -sum(row[1]))[:most]:
        print(f"{sum(took) / 3e3:9.3f} ms {len(took) / 3:7.1f} x {sum(took) / len(took):9.1f} us  {kernel[:160]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--evaluation", action="store_true", help="and not a training step")
    parser.add_argument("--systems", default="torch.compile,cdynamo")
    parser.add_argument("--most", type=int, default=60, help="kernels that are shown")
    options = parser.parse_args()
    for name in options.models.split(","):
        for system in options.systems.split(","):
            profile(name, options.dtype, not options.evaluation, system, options.most)
    return 0


if __name__ == "__main__":
    sys.exit(main())
