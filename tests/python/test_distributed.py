"""DistributedDataParallel over two gloo processes: a compiled model gets the gradients that eager's gets."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
from torch import nn  # noqa: E402

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)

PROCESSES = 2


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))


def train(model: nn.Module, rank: int) -> list[torch.Tensor]:
    """The gradients of every step, on batches that differ from process to process."""
    generator = torch.Generator().manual_seed(100 + rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gradients = []
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(6, 8, generator=generator)).square().mean().backward()
        gradients += [p.grad.clone() for p in model.parameters()]
        optimizer.step()
    return gradients


def work(rank: int, port: int, folders: list[str]) -> None:
    sys.path[:0] = folders
    import cdynamo

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=PROCESSES)
    try:
        parallel = nn.parallel.DistributedDataParallel
        small_buckets = {"bucket_cap_mb": 0.002}  # several: gradients are sent while backward runs
        expected = train(parallel(make_model(), **small_buckets), rank)
        for compiled in (
            parallel(cdynamo.optimize(make_model()), **small_buckets),
            cdynamo.optimize(parallel(make_model(), **small_buckets)),
        ):
            before = cdynamo.counters()["graphs_compiled"]
            for got, wanted in zip(train(compiled, rank), expected, strict=True):
                torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-6)
            assert cdynamo.counters()["graphs_compiled"] > before
        alone = train(make_model(), rank)
        assert not torch.allclose(alone[0], expected[0])  # the processes did exchange gradients
    finally:
        dist.destroy_process_group()


def test_gradients_are_those_of_eager():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    import cdynamo

    folders = [str(Path(cdynamo.__file__).parent.parent), str(Path(__file__).parent)]
    multiprocessing.spawn(work, (port, folders), nprocs=PROCESSES)
