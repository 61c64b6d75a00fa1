"""Whole training runs: optimizers, a physics-informed network, memory over many steps."""

from __future__ import annotations

import gc
import os

import pytest

import cdynamo

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from training_check import twins  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3),
}


def losses_of(model, optimizer, steps, clip):
    generator = torch.Generator().manual_seed(1)
    losses, schedule = [], torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        x = torch.randn(16, 6, generator=generator)
        optimizer.zero_grad(set_to_none=len(losses) % 2 == 0)
        loss = F.mse_loss(model(x), x[:, :3].sin())
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("clip", [False, True], ids=["", "clipped"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fifty_steps(name, clip, counts):
    model = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))
    eager, compiled = twins(model)
    expected = losses_of(eager, OPTIMIZERS[name](eager.parameters()), 50, clip)
    got = losses_of(compiled, OPTIMIZERS[name](compiled.parameters()), 50, clip)
    assert got == pytest.approx(expected, rel=2e-3, abs=1e-5)
    assert got[-1] < got[0]
    assert (counts.graphs_compiled, counts.graph_breaks, counts.recompiles) == (1, 0, 0)


def test_a_whole_step_that_is_compiled():
    """Forward, backward and optimizer in one function: broken where they cannot be captured, the numbers the same."""

    def make(wrap):
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), x[:, :3])
            loss.backward()
            optimizer.step()
            return loss.detach()

        return model, wrap(step)

    eager, eager_step = make(lambda f: f)
    compiled, fast_step = make(cdynamo.optimize)
    compiled.load_state_dict(eager.state_dict())
    for _ in range(10):
        x = torch.randn(8, 6)
        assert fast_step(x).item() == pytest.approx(eager_step(x).item(), rel=1e-4)
    torch.testing.assert_close(compiled.weight, eager.weight, rtol=1e-4, atol=1e-5)


def test_gradients_that_are_accumulated_over_batches():
    eager, compiled = twins(nn.Linear(4, 2))
    for model in (eager, compiled):
        for i in range(4):
            (model(torch.full((3, 4), float(i))).square().mean() / 4).backward()
    torch.testing.assert_close(compiled.weight.grad, eager.weight.grad)


# ---- a physics-informed network: u'' + u = 0 with u(0) = 0, u'(0) = 1 ----------------------------------------------


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, t):
        return self.layers(t)


def slope(of, by):
    return torch.autograd.grad(of.sum(), by, create_graph=True)[0]


def residual_loss(network, t):
    u = network(t)
    du = slope(u, t)
    return (slope(du, t) + u).square().mean() + u[0].square().sum() + (du[0] - 1).square().sum()


def train_network(network, loss, steps):
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    curve = []
    for _ in range(steps):
        t = torch.linspace(0, 2, 24)[:, None].requires_grad_()
        optimizer.zero_grad()
        value = loss(network, t)
        value.backward()
        optimizer.step()
        curve.append(value.item())
    return curve


@pytest.mark.parametrize("where", ["outside", "inside"])
def test_physics_informed_network(where):
    eager, compiled = twins(Network())
    if where == "inside":
        fast_loss = cdynamo.optimize(residual_loss)
        compiled = Network()
        compiled.load_state_dict(eager.state_dict())
    else:
        fast_loss = residual_loss
    expected = train_network(eager, residual_loss, 60)
    got = train_network(compiled, fast_loss, 60)
    assert got == pytest.approx(expected, rel=2e-2, abs=1e-4)
    assert got[-1] < 0.5 * got[0]


# ---- memory --------------------------------------------------------------------------------------------------------


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(step, warm_up: int, steps: int) -> int:
    for _ in range(warm_up):
        step()
    gc.collect()
    before = resident_bytes()
    for _ in range(steps):
        step()
    gc.collect()
    return resident_bytes() - before


def a_training_step():
    model = cdynamo.optimize(nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3)))
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(8, 6)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def a_step_of_second_order():
    network = cdynamo.optimize(Network())
    t = torch.linspace(0, 1, 8)[:, None].requires_grad_()

    def step():
        network.zero_grad()
        slope(slope(network(t), t), t).square().sum().backward()

    return step


def a_step_that_is_dropped():
    """A forward whose backward never runs, and one that keeps its graph."""
    function = cdynamo.optimize(lambda x: x.sin().exp())
    x = torch.randn(1000, requires_grad=True)

    def step():
        function(x)
        out = function(x).sum()
        torch.autograd.grad(out, x, retain_graph=True)
        torch.autograd.grad(out, x)

    return step


STEPS = {"training": a_training_step, "second order": a_step_of_second_order, "dropped": a_step_that_is_dropped}


@pytest.mark.parametrize("name", STEPS)
def test_memory_of_some_steps(name):
    assert growth(STEPS[name](), 100, 500) < 2_000_000


@pytest.mark.long
@pytest.mark.parametrize("name", STEPS)
def test_memory_of_ten_thousand_steps(name):
    assert growth(STEPS[name](), 500, 10_000) < 3_000_000
