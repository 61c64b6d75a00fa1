"""transformers' models of real size (random weights) on a CUDA device: cdynamo beside eager and torch.compile in
float32 and bfloat16, evaluation and training: milliseconds a step, ratio to eager, the largest relative error against
eager, graph breaks. Every figure has a process of its own; these compile side by side and are timed one at a time.

    python benchmarks/gpu_transformers.py
    python benchmarks/gpu_transformers.py --models gpt2,vit --dtypes bfloat16 --systems eager,cdynamo
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SYSTEMS = ("eager", "torch.compile", "cdynamo", "cdynamo:reduce-overhead")
LOCK = Path(tempfile.gettempdir()) / "gpu_transformers.lock"


def gpt2(t):
    return t.GPT2LMHeadModel(t.GPT2Config()), 50257, (4, 512)


def llama(t):
    config = t.LlamaConfig(
        hidden_size=2048, num_hidden_layers=8, num_attention_heads=32, num_key_value_heads=4, intermediate_size=5632,
    )  # fmt: skip
    return t.LlamaForCausalLM(config), 32000, (2, 512)


def bert(t):
    return t.BertForMaskedLM(t.BertConfig()), 30522, (8, 256)


def vit(t):
    return t.ViTForImageClassification(t.ViTConfig()), 0, (16, 3, 224, 224)


MODELS = {"gpt2": gpt2, "llama": llama, "bert": bert, "vit": vit}


def prepare(name: str, dtype: str, training: bool):
    import torch
    import transformers

    torch.manual_seed(0)
    model, words, sizes = MODELS[name](transformers)
    for key in vars(model.config):
        if "drop" in key and isinstance(getattr(model.config, key), float):
            setattr(model.config, key, 0.0)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model = model.to("cuda", getattr(torch, dtype)).train(training)
    if words:
        ids = torch.randint(0, words, sizes, device="cuda")
        batch = {"input_ids": ids, "labels": ids}
        if name != "bert":
            batch["use_cache"] = False
    else:
        batch = {
            "pixel_values": torch.randn(sizes, device="cuda", dtype=getattr(torch, dtype)),
            "labels": torch.arange(sizes[0], device="cuda") % 2,
        }
    return model, batch


def run_system(system: str, model):
    import torch

    import cdynamo

    name, _, mode = system.partition(":")
    if name == "eager":
        return model
    if name == "cdynamo":
        return cdynamo.optimize(model, mode=mode or "default")
    return torch.compile(model, mode=mode or None)


def worker(name: str, dtype: str, training: bool, system: str) -> dict:
    import torch

    import cdynamo

    model, batch = prepare(name, dtype, training)
    fast = run_system(system, model)

    def step(function) -> list[torch.Tensor]:
        with torch.set_grad_enabled(training):
            out = function(**batch)
        if training:
            model.zero_grad(set_to_none=True)
            out.loss.backward()
        return [out.logits]

    def results(function) -> list[torch.Tensor]:
        found = step(function)
        if training:
            found = found + [p.grad for p in model.parameters() if p.grad is not None]
        return [x.detach().float().cpu() for x in found]

    expected = results(model)
    start = time.perf_counter()
    found = results(fast)
    first = time.perf_counter() - start
    # Gradients that are rounding alone are measured against the others.
    scale = max((x.norm().item() for x in expected[1:]), default=0.0)
    error = max(
        (x - y).norm().item() / max(y.norm().item(), 1e-3 * scale * (i > 0), 1e-30)
        for i, (x, y) in enumerate(zip(found, expected, strict=True))
    )
    for _ in range(3):
        step(fast)
    torch.cuda.synchronize()
    best = float("inf")
    with open(LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for _ in range(12):
            start = time.perf_counter()
            for _ in range(3):
                step(fast)
            torch.cuda.synchronize()
            best = min(best, (time.perf_counter() - start) / 3)
    counters = cdynamo.counters() if system.startswith("cdynamo") else {}
    return {
        "first": first, "steady": best, "error": error, "memory": torch.cuda.max_memory_allocated(),
        "breaks": counters.get("graph_breaks", 0), "python": counters.get("calls_in_python", 0),
    }  # fmt: skip


def start_worker(job: tuple[str, str, str, str]) -> dict:
    with tempfile.TemporaryDirectory() as directory:
        env = dict(
            os.environ, TORCHINDUCTOR_CACHE_DIR=f"{directory}/i", TRITON_CACHE_DIR=f"{directory}/t",
            CDYNAMO_CACHE_DIR=f"{directory}/c", OMP_NUM_THREADS="2",
        )  # fmt: skip
        command = [sys.executable, __file__, "--worker", *job]
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=280)
        except subprocess.TimeoutExpired:
            return {"failed": "it took too long"}
    if done.returncode:
        return {"failed": " | ".join((done.stderr or done.stdout).strip().splitlines()[-3:])[:400]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--passes", default="evaluation,training")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        name, dtype, what, system = options.worker
        print(json.dumps(worker(name, dtype, what == "training", system)))
        return 0
    systems = options.systems.split(",")
    cases = list(itertools.product(options.models.split(","), options.dtypes.split(","), options.passes.split(",")))
    # Those that compile longest first.
    jobs = sorted(((*case, system) for case in cases for system in systems), key=lambda job: "torch" not in job[3])
    with ThreadPoolExecutor(options.jobs) as pool:
        found = dict(zip(jobs, pool.map(start_worker, jobs), strict=True))
    for case in cases:
        base = found[(*case, systems[0])].get("steady", float("nan"))
        for system in systems:
            row = found[(*case, system)]
            head = f"{' '.join(case):28} {system:24}"
            if "failed" in row:
                print(head, "FAILED:", row["failed"])
                continue
            print(
                f"{head} first {row['first']:6.2f} s  {row['steady'] * 1e3:8.3f} ms  {base / row['steady']:5.2f}x"
                f"  err {row['error']:.1e}  {row['memory'] >> 20} MiB"
                f"  breaks {row['breaks']}, in Python {row['python']}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
