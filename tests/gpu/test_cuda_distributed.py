"""Training and collectives over two GPUs with NCCL, and tensors of the second GPU in one process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if torch.cuda.device_count() < 2:
    pytest.skip("two CUDA devices are needed", allow_module_level=True)


import cdynamo  # noqa: E402

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


@pytest.fixture(autouse=True)
def _nothing_in_python():
    with distributed_programs.nothing_in_python("a call"):
        yield


def both(*shape):
    """The same numbers on the second device, on the first, and on the second again."""
    values = torch.randn(*shape)
    return [values.to(f"cuda:{device}") for device in (1, 0, 1, 0)]


def matrix(x):
    return torch.nn.functional.gelu(x @ x.t()).softmax(-1)


FUNCTIONS = {
    "fused": lambda x: (x.sin() * 2 + x.cos()).exp().sum(0),
    "rows": lambda x: x.softmax(-1) + x.mean(),
    "matrix": matrix,
    "factories": lambda x: x + torch.ones(33, device=x.device) + torch.arange(33, device=x.device),
    "both": lambda x: (x.sin().to("cuda:0") + 1, x.cos().to("cuda:1") * 2),
    "current": lambda x: x.to("cuda").sin() + torch.ones(33, device="cuda"),
}


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_tensors_of_either_device(name, current, mode):
    fast = cdynamo.optimize(FUNCTIONS[name], mode=mode)
    with torch.cuda.device(current):
        for x in both(20, 33) * 3:
            got, expected = fast(x), FUNCTIONS[name](x)
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize(
    "function",
    [lambda x: torch.randn_like(x) + x, lambda x: torch.nn.functional.dropout(x, 0.3) * 2],
    ids=["randn", "dropout"],
)
def test_random_numbers_of_either_device(function, current):
    fast = cdynamo.optimize(function)
    with torch.cuda.device(current):
        for x in both(100, 33) * 2:
            torch.manual_seed(7)
            expected = function(x)
            torch.manual_seed(7)
            torch.testing.assert_close(fast(x), expected)


class TwoStages(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(8, 32).to("cuda:0"), torch.nn.Linear(32, 4).to("cuda:1")

    def forward(self, x):
        return self.second(torch.nn.functional.gelu(self.first(x)).to("cuda:1"))


def test_a_model_over_two_devices_trains():
    inputs = [torch.randn(16, 8, device="cuda:0") for _ in range(4)]
    expected = distributed_programs.train(TwoStages(), inputs)
    distributed_programs.assert_equal(distributed_programs.train(cdynamo.optimize(TwoStages()), inputs), expected)
