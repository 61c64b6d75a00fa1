"""Training and collectives over two GPUs with NCCL, and tensors of the second GPU in one process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if torch.cuda.device_count() < 2:
    pytest.skip("two CUDA devices are needed", allow_module_level=True)


sys.path.insert(0, str(Path(__file__).parent.parent / "python"))
import distributed_programs  # noqa: E402


@pytest.mark.parametrize(
    "names",
    [
        ["ddp"],
        ["ddp_hooks", "ddp_many_steps", "ddp_whole_step"],
        ["fsdp"],
        ["tensor_parallel", "sharded_tensors"],
        ["collectives"],
    ],
    ids=" ".join,
)
def test_two_devices(names):
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    distributed_programs.run(names, "cuda")
