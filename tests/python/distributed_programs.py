"""Programs over two processes, each compared with eager: what test_distributed.py runs with gloo and tests/gpu with NCCL.

`run(["ddp"], "cpu")` starts the processes and runs `ddp(device, rank)` in each; a failure in one is raised here.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

PROCESSES = 2


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.norm, self.middle, self.down = (
            nn.Linear(8, 32),
            nn.LayerNorm(32),
            nn.Linear(32, 32),
            nn.Linear(32, 4),
        )

    def forward(self, x):
        return self.down(torch.tanh(self.middle(F.gelu(self.norm(self.up(x))))))


class Normed(nn.Module):
    """Has buffers, which DDP broadcasts."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.norm, self.down = nn.Linear(8, 32), nn.BatchNorm1d(32), nn.Linear(32, 4)

    def forward(self, x):
        return self.down(F.relu(self.norm(self.up(x))))


class TwoHeads(nn.Module):
    """One head of the two is used in turn."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.heads, self.calls = nn.Linear(8, 32), nn.ModuleList(nn.Linear(32, 4) for _ in range(2)), 0

    def forward(self, x):
        self.calls += 1
        return self.heads[self.calls % 2](torch.tanh(self.up(x)))


class Breaking(Mlp):
    def forward(self, x):
        hidden = torch.tanh(self.norm(self.up(x)))
        if hidden.sum().item() > 1e9:
            hidden = hidden + 1
        print("", end="")
        return self.down(torch.tanh(self.middle(hidden)))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 4)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(3))

    def forward(self, x):
        x = self.up(x)
        for block in self.blocks:
            x = x + block(x)
        return self.down(x)


def batches(device: str, rank: int, count: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + rank)
    return [torch.randn(6, 8, generator=generator).to(device) for _ in range(count)]


def whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def train(model: nn.Module, inputs: list[torch.Tensor], accumulate: int = 1) -> list[torch.Tensor | None]:
    """Losses, gradients, parameters and buffers of every step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)  # mixes DTensors with tensors
    seen = []
    for step, x in enumerate(inputs):
        last = (step + 1) % accumulate == 0
        if last:
            loss = model(x).square().mean()
            loss.backward()
        else:
            with model.no_sync():
                loss = model(x).square().mean()
                loss.backward()
        seen += [loss.detach()] + [None if p.grad is None else whole(p.grad).clone() for p in model.parameters()]
        if last:
            optimizer.step()
            optimizer.zero_grad()
        seen += [whole(p.detach()).clone() for p in model.parameters()] + [b.clone() for b in model.buffers()]
    return seen


def assert_equal(got: list, wanted: list) -> None:
    for a, b in zip(got, wanted, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@contextlib.contextmanager
def nothing_in_python(name: str):
    """A context that fails where a call of compiled code ran in Python without a word."""
    import cdynamo

    before = cdynamo.counters()["calls_in_python"]
    yield
    assert cdynamo.counters()["calls_in_python"] == before, name


def compiles():
    """A context that fails where nothing was compiled, or a function went on in Python for good."""
    import cdynamo

    @contextlib.contextmanager
    def watch():
        before = cdynamo.counters()["graphs_compiled"]
        yield
        assert cdynamo.counters()["graphs_compiled"] > before
        cdynamo.reset()

    return watch()


def check_parallel(
    make, device: str, rank: int, steps: int = 4, accumulate: int = 1, prepare=lambda model: None, **options
):
    import cdynamo

    def result(wrap):
        model = wrap()
        prepare(model)
        return train(model, batches(device, rank, steps), accumulate)

    def parallel(model):
        return DistributedDataParallel(model, **options)

    def made():
        return make().to(device)

    wanted = result(lambda: parallel(made()))
    for wrap in (
        lambda: parallel(cdynamo.optimize(made())),
        lambda: cdynamo.optimize(parallel(made())),
        lambda: cdynamo.optimize(parallel(cdynamo.optimize(made())), dynamic=True),
        lambda: parallel(cdynamo.optimize(made(), mode="reduce-overhead")),
    ):
        with compiles():
            assert_equal(result(wrap), wanted)
    return wanted


def ddp(device: str, rank: int) -> None:
    small_buckets = {"bucket_cap_mb": 0.002}  # several: gradients are sent while backward runs
    wanted = check_parallel(Mlp, device, rank, **small_buckets)
    alone = train(Mlp().to(device), batches(device, rank, 4))
    assert not torch.allclose(alone[1], wanted[1])  # the processes did exchange gradients
    check_parallel(Mlp, device, rank, gradient_as_bucket_view=True)
    check_parallel(Mlp, device, rank, accumulate=2, **small_buckets)
    check_parallel(Mlp, device, rank, static_graph=True)
    check_parallel(Normed, device, rank)
    check_parallel(TwoHeads, device, rank, find_unused_parameters=True)
    check_parallel(Breaking, device, rank, **small_buckets)


def ddp_hooks(device: str, rank: int) -> None:
    calls: list[list[int]] = []

    def quarter(state, bucket):
        calls[-1][0] += bucket.buffer().numel()
        sent = dist.all_reduce(bucket.buffer() / 4, async_op=True).get_future()
        return sent.then(lambda future: future.value()[0])

    def count(parameter):
        calls[-1][1] += 1

    def prepare(model):
        calls.append([0, 0])
        model.register_comm_hook(None, quarter)
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(count)

    check_parallel(Mlp, device, rank, prepare=prepare, bucket_cap_mb=0.002)
    assert len(calls) == 5 and all(each == calls[0] for each in calls), calls


def ddp_many_steps(device: str, rank: int) -> None:
    """Each forward of DDP writes to its class."""
    import cdynamo

    inputs = batches(device, rank, 1) * 30
    model = cdynamo.optimize(DistributedDataParallel(Mlp().to(device)))
    train(model, inputs[:5])
    before = cdynamo.counters()["frames_compiled"], cdynamo.counters()["graphs_compiled"]
    train(model, inputs)
    assert (cdynamo.counters()["frames_compiled"], cdynamo.counters()["graphs_compiled"]) == before


def ddp_whole_step(device: str, rank: int) -> None:
    import cdynamo

    def losses(optimize):
        model = DistributedDataParallel(Mlp().to(device))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

        @optimize
        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            return loss.detach()

        return [step(x) for x in batches(device, rank, 5)] + [p.detach() for p in model.parameters()]

    with compiles():
        assert_equal(losses(cdynamo.optimize), losses(lambda step: step))


def fsdp(device: str, rank: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    import cdynamo

    mesh = init_device_mesh(device, (PROCESSES,))

    def sharded(model, **options):
        for block in model.blocks:
            fully_shard(block, mesh=mesh, **options)
        return fully_shard(model, mesh=mesh, **options)

    def with_blocks(model):
        for i, block in enumerate(model.blocks):
            model.blocks[i] = cdynamo.optimize(block)
        return model

    def made():
        return Residual().to(device)

    inputs = batches(device, rank, 4)
    wanted = train(sharded(made()), inputs)
    for wrap in (
        lambda: cdynamo.optimize(sharded(made())),
        lambda: sharded(cdynamo.optimize(made())),
        lambda: with_blocks(sharded(made())),
        lambda: sharded(with_blocks(made())),
        lambda: cdynamo.optimize(sharded(made(), reshard_after_forward=False)),
    ):
        with compiles():
            assert_equal(train(wrap(), inputs), wanted)


def tensor_parallel(device: str, rank: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    import cdynamo

    mesh = init_device_mesh(device, (PROCESSES,))

    def parallel(model):
        return parallelize_module(model, mesh, {"blocks.0.0": ColwiseParallel(), "blocks.0.2": RowwiseParallel()})

    def made():
        return Residual().to(device)

    inputs = batches(device, 0, 4)
    wanted = train(made(), inputs)
    assert_equal(train(parallel(made()), inputs), wanted)
    for wrap in (lambda: cdynamo.optimize(parallel(made())), lambda: parallel(cdynamo.optimize(made()))):
        with compiles():
            assert_equal(train(wrap(), inputs), wanted)


def sharded_tensors(device: str, rank: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    import cdynamo

    mesh = init_device_mesh(device, (PROCESSES,))
    torch.manual_seed(0)
    a, b = torch.randn(8, 6, device=device), torch.randn(6, 4, device=device)

    def product(a, b):
        return (torch.sin(a) @ b + 1).relu().sum(0)

    def inside(x):
        doubled = distribute_tensor(x, mesh, [Shard(0)]) * 2
        return doubled.redistribute(mesh, [Replicate()]).to_local() + 1, DTensor.from_local(
            x, mesh, [Shard(0)]
        ).full_tensor()

    for placement_a, placement_b in ((Shard(0), Replicate()), (Replicate(), Shard(1)), (Shard(1), Shard(0))):
        fast = cdynamo.optimize(product)
        shards = distribute_tensor(a, mesh, [placement_a]), distribute_tensor(b, mesh, [placement_b])
        for _ in range(2):  # plain tensors and sharded ones in turn
            assert_equal([fast(*shards).full_tensor(), fast(a, b)], [product(a, b)] * 2)
        leaves = [t.clone().requires_grad_() for t in (a, b)]
        product(*leaves).square().mean().backward()
        for shard in shards:
            shard.requires_grad_()
        fast(*shards).square().mean().backward()
        assert_equal([shard.grad.full_tensor() for shard in shards], [leaf.grad for leaf in leaves])
    assert_equal(list(cdynamo.optimize(inside)(a)), list(inside(a)))


def reduced_twice(x):
    first = x * 2
    dist.all_reduce(first)
    second = first + 1
    dist.all_reduce(second, op=dist.ReduceOp.MAX)
    return first, second.sin()


def reduced_meanwhile(x):
    doubled = x * 2
    work = dist.all_reduce(doubled, async_op=True)
    other = x.cos()
    work.wait()
    return doubled + other


def reduced_in_place(x):
    x.mul_(2)
    dist.all_reduce(x)
    x.add_(1)
    return x * 3


def gathered(x):
    parts = [torch.empty_like(x) for _ in range(PROCESSES)]
    dist.all_gather(parts, x + 1)
    together = x.new_empty(PROCESSES * x.numel())
    dist.all_gather_into_tensor(together, x.sin())
    return torch.cat(parts) * 2 + together


def scattered(x):
    part = x.new_empty(x.numel() // PROCESSES)
    dist.reduce_scatter_tensor(part, x + 1)
    return part * 2


def broadcast(x):
    sent = x + 1
    dist.broadcast(sent, 0)
    dist.barrier()
    return sent * 2


def exchanged(x):
    received, doubled = torch.empty_like(x), x * 2
    dist.all_to_all_single(received, doubled)
    if dist.get_rank() == 0:
        dist.send(received, 1)
        dist.recv(doubled, 1)
    else:
        dist.recv(doubled, 0)
        dist.send(received, 0)
    return received + doubled


def by_rank(x):
    return x * dist.get_rank() + dist.get_world_size()


def in_a_loop(x):
    for _ in range(5):
        x = x.sin()
        dist.all_reduce(x)
        x = x / 2
    return x


def functional(x):
    import torch.distributed._functional_collectives as collectives

    y = collectives.all_reduce(x * 2, "sum", dist.group.WORLD) + 1
    return collectives.all_gather_tensor(y, 0, dist.group.WORLD) * 2


def functional_scatter(x):
    import torch.distributed._functional_collectives as collectives

    return collectives.reduce_scatter_tensor(x * 2, "sum", 0, dist.group.WORLD) * 2


def with_gradient(x):
    from torch.distributed.nn.functional import all_reduce

    return all_reduce(x * 2) * 3


def collectives(device: str, rank: int) -> None:
    import cdynamo

    x = torch.arange(6.0, device=device) + rank
    programs = [reduced_twice, reduced_meanwhile, reduced_in_place, gathered, scattered, broadcast, exchanged, by_rank]
    for program in [*programs, in_a_loop, functional, functional_scatter, with_gradient]:
        fast = cdynamo.optimize(program)
        for _ in range(3):
            torch.testing.assert_close(
                fast(x.clone()), program(x.clone()), msg=lambda text, f=program: f"{f.__name__}: {text}"
            )
    leaves = [x.clone().requires_grad_() for _ in range(2)]
    with_gradient(leaves[0]).sin().sum().backward()
    cdynamo.optimize(with_gradient)(leaves[1]).sin().sum().backward()
    torch.testing.assert_close(leaves[1].grad, leaves[0].grad)


def work(rank: int, store: str, folders: list[str], names: list[str], device: str) -> None:
    sys.path[:0] = folders
    import warnings

    faulthandler.enable()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank)
    backend = "nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=store, rank=rank, world_size=PROCESSES)
    try:
        for name in names:
            with nothing_in_python(name):
                globals()[name](device, rank)
    finally:
        dist.destroy_process_group()
    # Gloo's threads outlive the group, and one that still lets go of a tensor while Python shuts down aborts the process
    # (libstdc++: "terminate called without an active exception"), with eager PyTorch alone too: leave without shutting down.
    sys.stdout.flush()
    os._exit(0)


def run(names: list[str], device: str) -> None:
    import cdynamo

    folders = [str(Path(cdynamo.__file__).parent.parent), str(Path(__file__).parent)]
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(work, (f"file://{folder}/store", folders, names, device), nprocs=PROCESSES)
