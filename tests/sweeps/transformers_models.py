"""Every model type of transformers that a small random config can be made of: cdynamo against eager, evaluation and the
gradients of a training step, on the CPU. Prints what differs, crashes, breaks the graph or compiles often, and a count.

    python tests/sweeps/transformers_models.py --jobs 15
    python tests/sweeps/transformers_models.py --models bert,qwen3_moe

A difference counts where it is larger than eager's own from one call to the next, and than three times eager's distance
from float64. Model types of which no config, inputs or model could be made are left out, and counted.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import logging
import os
import queue
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "embedding_size", "projection_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("decoder_attention_heads", "mamba_n_heads", "mamba_num_heads", "n_mamba_heads"), 4),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "hidden_dim"), 64),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts", "time_step_rank"), 4),
    **dict.fromkeys(("head_dim", "d_kv", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"), 8),
    **dict.fromkeys(("attention_head_size", "state_size", "mamba_d_state", "ssm_state_size", "sliding_window"), 8),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "kv_lora_rank", "q_lora_rank"), 16),
    **dict.fromkeys(("mamba_d_head", "mamba_head_dim", "num_mel_bins"), 16),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 128),
    **dict.fromkeys(("max_source_positions", "max_target_positions"), 40),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace"), 1),
    **{"num_key_value_heads": 2, "num_experts_per_tok": 2, "num_conv_pos_embedding_groups": 2},
    **{"num_conv_pos_embeddings": 4, "attention_window": 4, "num_feat_extract_layers": 3, "num_channels": 3},
    **{"vocab_size": 99, "image_size": 32, "patch_size": 8, "d_inner": 64},
    **{"conv_dim": (16, 16, 16), "conv_kernel": (3, 3, 3), "conv_stride": (2, 2, 2)},
    **{"hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1]},
}
DIMS_OF_STATES = ("mamba", "n_mamba", "ssm", "state", "time_step", "qk_", "v_head", "kv_", "q_lora", "head_dim")
FEW = ("vocab_size", "image_size", "num_local_experts", "num_experts", "n_routed_experts", "intermediate_size")
# What is made small: all, all but the sizes of states and heads, layers and the like alone.
LEVELS: tuple[Callable[[str], bool], ...] = (
    lambda name: True,
    lambda name: not name.startswith((*DIMS_OF_STATES, "attention_head_size", "d_inner")),
    lambda name: name.endswith("layers") or name in (*FEW, "n_layer", "moe_intermediate_size"),
)
MOST_PARAMETERS = 120_000_000


class LeftOut(Exception):
    """No model of this type was made; the text says why."""


def shrink(config: Any, is_small: Callable[[str], bool], depth: int = 0) -> None:
    for name, small in SMALL.items():
        given = getattr(config, name, None)
        if given is None or not is_small(name):
            continue
        if isinstance(given, (list, tuple)) != isinstance(small, (list, tuple)):
            if not isinstance(given, (list, tuple)):
                continue
            small = [small] * len(given)
        try:
            setattr(config, name, small)
        except Exception:  # a property, or a check of the config's own
            continue
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        if isinstance(getattr(config, name, None), int) and getattr(config, name) >= SMALL["vocab_size"]:
            setattr(config, name, 1)
    if hasattr(config, "qk_rope_head_dim") and hasattr(config, "head_dim"):
        config.head_dim = config.qk_rope_head_dim
    for name, value in list(vars(config).items()):
        if name in ("layer_types", "mlp_layer_types", "layers_block_type") and isinstance(value, list):
            setattr(config, name, value[:2])
        elif "drop" in name and isinstance(value, float):
            setattr(config, name, 0.0)
        elif hasattr(value, "to_diff_dict") and depth < 3:
            shrink(value, is_small, depth + 1)


def tensors_in(tree: Any) -> Iterator[Any]:
    import torch

    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (dict, list, tuple)):
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from tensors_in(item)


def inputs_of(model: Any) -> dict[str, Any]:
    import inspect

    import torch

    torch.manual_seed(1)
    names, main = inspect.signature(model.forward).parameters, model.main_input_name
    inputs: dict[str, Any] = {
        "pixel_values": torch.randn(2, 3, 32, 32),
        "input_features": torch.randn(2, 16, 80),
        "input_values": torch.randn(2, 400),
    }
    inputs = {main: inputs[main]} if main in inputs else {}
    if "input_ids" in names:
        inputs |= {"input_ids": torch.randint(3, 90, (2, 12)), "attention_mask": torch.ones(2, 12, dtype=torch.long)}
    if "decoder_input_ids" in names and main != "pixel_values":
        inputs["decoder_input_ids"] = torch.randint(3, 90, (2, 6))
    inputs["use_cache"] = False
    return {name: value for name, value in inputs.items() if name in names}


def make(name: str, is_small: Callable[[str], bool]) -> Any:
    import torch
    import transformers
    from transformers.models.auto import modeling_auto as auto

    try:
        config = transformers.CONFIG_MAPPING[name]()
        shrink(config, is_small)
        mappings = (auto.MODEL_FOR_CAUSAL_LM_MAPPING, auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, auto.MODEL_MAPPING)
        kind = next(mapping[type(config)] for mapping in mappings if type(config) in mapping)
        torch.manual_seed(0)
        model = (kind[0] if isinstance(kind, (tuple, list)) else kind)(config).eval()
    except Exception as error:
        raise LeftOut(f"no model: {error!r}") from error
    if sum(parameter.numel() for parameter in model.parameters()) > MOST_PARAMETERS:
        raise LeftOut("it is large")
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def results(function: Any, model: Any, inputs: dict[str, Any], training: bool) -> list[Any]:
    """The tensors of real numbers that come out and, in training, the gradients of the parameters."""
    import torch

    torch.manual_seed(2)
    model.zero_grad()
    given = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}
    with torch.set_grad_enabled(training):
        found = [tensor for tensor in tensors_in(function(**given)) if tensor.is_floating_point()]
    if training:
        sum(tensor.float().square().mean() for tensor in found if tensor.requires_grad).backward()
        found += [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return [tensor.detach().clone() for tensor in found]


def distance(got: list[Any], want: list[Any]) -> float:
    """The largest difference of any tensor by its largest element, or by a thousandth of the largest of all."""
    if [tensor.shape for tensor in got] != [tensor.shape for tensor in want]:
        return float("nan")
    pairs = [(x.double(), y.double()) for x, y in zip(got, want, strict=True) if y.numel()]
    largest = max((y.abs().max().item() for _, y in pairs), default=1.0)
    return max(
        ((x - y).abs().max().item() / max(y.abs().max().item(), 1e-3 * largest, 1e-30) for x, y in pairs), default=0
    )


def compare(model: Any, compiled: Any, inputs: dict[str, Any], training: bool) -> dict[str, Any]:
    import torch

    import cdynamo

    want = results(model, model, inputs, training)
    before, start = cdynamo.counters(), time.perf_counter()
    got = results(compiled, model, inputs, training)
    row: dict[str, Any] = {"first": round(time.perf_counter() - start, 2), "error": distance(got, want)}
    results(compiled, model, inputs, training)
    after = cdynamo.counters()
    row |= {name: after[name] - before[name] for name in ("graph_breaks", "recompiles")}
    row["differs"] = not row["error"] <= 1e-4
    if row["differs"]:
        row["repeated"] = distance(results(model, model, inputs, training), want)
        wide = copy.deepcopy(model).double()
        wide_inputs = {
            name: value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
            for name, value in inputs.items()
        }
        exact = results(wide, wide, wide_inputs, training)
        row |= {"eager's from float64": distance(want, exact), "ours": distance(got, exact)}
        row["differs"] = (
            row["repeated"] <= row["error"] / 3 and not row["ours"] <= 3 * row["eager's from float64"] + 1e-5
        )
    return row


def examine(name: str) -> dict[str, Any]:
    import cdynamo

    why = ""
    for is_small in LEVELS:
        try:
            model = make(name, is_small)
            inputs = inputs_of(model)
            results(model, model, inputs, training=False)
        except Exception as error:
            why = str(error)[:120]
            continue
        compiled = cdynamo.optimize(model)
        found: dict[str, Any] = {"evaluation": compare(model, compiled, inputs, training=False)}
        try:
            results(model, model, inputs, training=True)
        except Exception:  # nothing to train
            return found
        return found | {"training": compare(model, compiled, inputs, training=True)}
    return {"left out": why}


def work() -> None:
    import torch

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    for line in sys.stdin:
        try:
            found = examine(line.strip())
        except Exception as error:
            found = {"failed": repr(error)[:300]}
        print("RESULT " + json.dumps(found), flush=True)


class Workers:
    """Processes that take names from one queue; one that hangs or dies loses the name that it was at."""

    def __init__(self, names: list[str], jobs: int, seconds: float) -> None:
        self._names: queue.Queue[str] = queue.Queue()
        self._seconds = seconds
        self.found: dict[str, dict[str, Any]] = {}
        for name in names:
            self._names.put(name)
        threads = [threading.Thread(target=self._run) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _start(self) -> subprocess.Popen[str]:
        env = dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1")
        command = [sys.executable, "-W", "ignore", __file__, "--worker"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, text=True, env=env, **pipes)

    def _run(self) -> None:
        process = self._start()
        while True:
            try:
                name = self._names.get_nowait()
            except queue.Empty:
                break
            timer = threading.Timer(self._seconds, process.kill)
            timer.start()
            try:
                print(name, file=process.stdin, flush=True)
                line = next(line for line in process.stdout or () if line.startswith("RESULT "))
                self.found[name] = json.loads(line[len("RESULT ") :])
            except (StopIteration, BrokenPipeError):
                self.found[name] = {"crashed, or took too long": process.wait()}
                process = self._start()
            timer.cancel()
        process.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="", help="comma list; all where it is empty")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=120, help="a model's time limit")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return 0
    import transformers

    names = options.models.split(",") if options.models else list(transformers.CONFIG_MAPPING.keys())
    counts = {"equal": 0, "to look at": 0, "left out": 0}
    for name, found in sorted(Workers(names, options.jobs, options.seconds).found.items()):
        rows = [row for row in found.values() if isinstance(row, dict)]
        is_equal = bool(rows) and not any(row["differs"] for row in rows)
        verdict = "left out" if "left out" in found else "equal" if is_equal else "to look at"
        counts[verdict] += 1
        many = any(row["graph_breaks"] or row["recompiles"] > 1 or row["first"] > 8 for row in rows)
        if verdict != "equal" or many:
            print(f"{verdict:10} {name}: {json.dumps(found)}")
    print(", ".join(itertools.starmap("{1} {0}".format, counts.items())))
    return 1 if counts["to look at"] else 0


if __name__ == "__main__":
    sys.exit(main())
