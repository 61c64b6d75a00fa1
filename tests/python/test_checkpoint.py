"""torch.utils.checkpoint inside of a compiled function: gradients and state are eager's, and it is one graph."""

from __future__ import annotations

import copy
import functools

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint, checkpoint_sequential  # noqa: E402
from training_check import assert_close, assert_same_gradients, check, leaf, twins  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width: int = 8, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, scale=1.0):
        return x + self.dropout(self.down(torch.nn.functional.gelu(self.up(self.norm(x))))) * scale


class Stack(nn.Module):
    def __init__(self, layers: int = 3, dropout: float = 0.0, **arguments) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(dropout=dropout) for _ in range(layers))
        self.arguments = {"use_reentrant": False, **arguments}

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, **self.arguments)
        return x


def graphs_and_breaks(function, *args):
    before = cdynamo.counters()
    result = function(*args)
    after = cdynamo.counters()
    return result, after["graphs_compiled"] - before["graphs_compiled"], after["graph_breaks"] - before["graph_breaks"]


def train_both(model, x, captured=True):
    cdynamo.reset()
    eager, compiled = twins(model)
    results = []
    for m in (eager, compiled):
        torch.manual_seed(5)
        y, _, breaks = graphs_and_breaks(m, x)
        y.square().mean().backward()
        results.append((y, torch.rand(1)))
    assert_close(results[1][0], results[0][0], "output")
    assert_close(results[1][1], results[0][1], "the next random number")
    assert_same_gradients(compiled, eager)
    for (name, ours), (_, theirs) in zip(compiled.named_buffers(), eager.named_buffers()):
        assert_close(ours, theirs, name)
    assert (breaks == 0) == captured


ARGUMENTS = [
    {},
    {"use_reentrant": True},
    {"preserve_rng_state": False},
    {"determinism_check": "none", "scale": 0.5},
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_layers_in_a_loop(arguments):
    train_both(Stack(**arguments), leaf(4, 8))


@pytest.mark.parametrize("reentrant", [False, True])
def test_dropout(reentrant):
    train_both(Stack(dropout=0.3, use_reentrant=reentrant), leaf(4, 8))


def test_dropout_that_is_drawn_anew_is_eagers():
    train_both(Stack(dropout=0.3, preserve_rng_state=False), leaf(4, 8), captured=False)


def test_what_is_not_captured_is_eagers():
    train_both(Stack(debug=True), leaf(4, 8), captured=False)
    contexts = torch.utils.checkpoint.create_selective_checkpoint_contexts
    train_both(
        Stack(context_fn=functools.partial(contexts, [torch.ops.aten.addmm.default])), leaf(4, 8), captured=False
    )


def test_where_eager_stops_computing_again_is_not_seen():
    train_both(Stack(early_stop=False), leaf(4, 8))
    run = lambda x: checkpoint(torch.sin, x, use_reentrant=False)
    with torch.utils.checkpoint.set_checkpoint_early_stop(False):
        check(run, leaf(3), fullgraph=True)


def test_running_statistics_are_updated_as_often_as_eager_does():
    train_both(_Normed(), leaf(6, 8), captured=False)
    train_both(_Normed().eval(), leaf(6, 8))


class _Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8))

    def forward(self, x):
        return checkpoint(self.inside, x, use_reentrant=False)


def test_state_that_is_changed_inside():
    class Counting(Block):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x)

    eager, compiled = Counting(), Counting()
    run = lambda m, x: checkpoint(m, x, use_reentrant=False)
    run(eager, leaf(2, 8)).sum().backward()
    cdynamo.optimize(run)(compiled, leaf(2, 8)).sum().backward()
    assert compiled.calls == eager.calls

    log, eager_log = [], []

    def logged(log, x):
        log.append(0)
        return checkpoint(lambda x: log.append(1) or x.sin(), x, use_reentrant=False)

    logged(eager_log, leaf(3)).sum().backward()
    cdynamo.optimize(logged)(log, leaf(3)).sum().backward()
    assert log == eager_log


def test_a_tensor_that_is_written_to_inside():
    def local(x):
        y = x * 2
        y.add_(1)
        return y.sin()

    check(lambda x: checkpoint(local, x, use_reentrant=False), leaf(3), fullgraph=True)

    def outer(x, total):
        def inside(x):
            total.add_(x.detach().sum())
            return x.sin() * 2

        return checkpoint(inside, x, use_reentrant=False)

    totals = []
    for f in (outer, cdynamo.optimize(outer)):
        totals.append(torch.zeros(()))
        f(leaf(3).detach().fill_(1).requires_grad_(), totals[-1]).sum().backward()
    assert_close(totals[1], totals[0])


def test_without_gradients():
    def function(x):
        with torch.no_grad():
            y = checkpoint(torch.sin, x, use_reentrant=False)
        return checkpoint(torch.cos, x + y, use_reentrant=False)

    check(function, leaf(3), fullgraph=True)
    check(function, torch.randn(3), fullgraph=True)
    check(lambda x: checkpoint(torch.cos, x, use_reentrant=True), torch.randn(3))


def test_several_results_keywords_and_closures():
    scale = leaf(4)

    def inside(x, y, *, flag=None, extra=None):
        z = (x * scale).tanh() + y.sin()
        return z, (x @ extra["w"], 3) if flag else None

    def function(x, y, w):
        z, (p, n) = checkpoint(inside, x, y, use_reentrant=False, flag=True, extra={"w": w})
        return z * n + p.exp(), z

    check(function, leaf(4, 4), leaf(4), leaf(4, 4), fullgraph=True)


def test_sequential_and_nested():
    class Sequential(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*(Block() for _ in range(5)))

        def forward(self, x):
            return checkpoint_sequential(self.layers, 2, x, use_reentrant=False)

    train_both(Sequential(), leaf(4, 8))

    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.last = Stack(dropout=0.2), Block()

        def forward(self, x):
            return self.last(checkpoint(self.inner, x, use_reentrant=False))

    train_both(Nested(), leaf(4, 8))


def test_autocast_inside_and_around():
    def inside(x, w, v):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
        return y.float().tanh() @ v

    run = lambda *inputs: checkpoint(inside, *inputs, use_reentrant=False)
    check(run, leaf(4, 4), leaf(4, 4), leaf(4, 4), fullgraph=True)

    eager, compiled = twins(Stack())
    x = leaf(4, 8)
    for m in (eager, compiled):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = m(x)
        y.float().square().mean().backward()
    for ours, theirs in zip(compiled.parameters(), eager.parameters()):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=0.05, atol=1e-3)


def test_higher_derivatives_and_gradients_inside():
    def penalty(x, w):
        y = checkpoint(lambda x: (x @ w).tanh() @ w, x, use_reentrant=False).square().sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return g.square().sum() + y

    check(penalty, leaf(3, 3), leaf(3, 3))

    def second(f, x):
        y = f(x).square().sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), x)[0]

    f = lambda x: checkpoint(lambda x: (x * 2).tanh() * x, x, use_reentrant=False)
    x = leaf(4)
    assert_close(second(cdynamo.optimize(f), x), second(f, x))


def kept_bytes(function, *args):
    """Bytes that are kept for the backward besides arguments and results."""
    out = function(*args)
    kept = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in out.grad_fn.saved_tensors}
    known = {t.untyped_storage().data_ptr() for t in (*args, out)}
    return sum(size for pointer, size in kept.items() if pointer not in known)


def test_only_what_comes_into_a_region_is_kept():
    def layer(x, w):
        return x + torch.softmax((x @ w).tanh() @ w, -1) @ w

    def model(x, w):
        for _ in range(6):
            x = checkpoint(layer, x, w, use_reentrant=False)
        return x

    plain = lambda x, w: functools.reduce(lambda x, _: layer(x, w), range(6), x)
    x, w = leaf(64, 8), leaf(8, 8)
    assert kept_bytes(cdynamo.optimize(plain), x, w) >= 15 * x.nbytes
    assert kept_bytes(cdynamo.optimize(model), x, w) == 5 * x.nbytes


def test_equal_parts_of_several_regions_stay_apart():
    """What two regions and the rest compute alike is not kept for each other."""

    def layer(x, w, c):
        return x * torch.exp(c @ c) @ w

    def model(x, w, c):
        for _ in range(3):
            x = checkpoint(layer, x, w, c, use_reentrant=False)
        return x + torch.exp(c @ c).sum()

    x, w, c = leaf(8, 8), leaf(8, 8), torch.randn(8, 8) / 8
    assert kept_bytes(cdynamo.optimize(model), x, w, c) == 2 * x.nbytes
    check(model, x, w, c, fullgraph=True)


def test_a_model_and_its_copy_train_alike():
    model = Stack(layers=4, dropout=0.1)
    eager, compiled = model, cdynamo.optimize(copy.deepcopy(model))
    x = torch.randn(4, 8)
    losses = []
    for m in (eager, compiled):
        torch.manual_seed(1)
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
        losses.append([])
        for _ in range(5):
            optimizer.zero_grad()
            loss = m(x).square().mean()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
