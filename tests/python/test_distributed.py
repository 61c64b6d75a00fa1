"""Training and collectives over two gloo processes: losses, gradients and parameters are those of eager."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)

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
def test_two_processes(names):
    distributed_programs.run(names, "cpu")
