"""Whole training steps in one compiled function: optimizers, clipping, schedules. Parameters and states are eager's."""

from __future__ import annotations

import copy

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch import nn, optim  # noqa: E402

OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
    "sgd_foreach": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    "adam": lambda p: optim.Adam(p, lr=0.1),
    "adam_foreach": lambda p: optim.Adam(p, lr=0.1, foreach=True, weight_decay=0.1),
    "amsgrad": lambda p: optim.Adam(p, lr=0.1, amsgrad=True, maximize=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.1),
    "adamw_tensor_lr": lambda p: optim.AdamW(p, lr=torch.tensor(0.1)),
    "adamw_foreach": lambda p: optim.AdamW(p, lr=0.1, foreach=True),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.1),
    "nadam": lambda p: optim.NAdam(p),
}
IN_PYTHON = {
    "sgd_fused": lambda p: optim.SGD(p, lr=0.1, fused=True),
    "adamw_fused": lambda p: optim.AdamW(p, lr=0.1, fused=True),
    "radam": lambda p: optim.RAdam(p),
}


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def train(make_step, wrap, steps=6):
    """Losses, parameters, gradients and the optimizer's state after some steps."""
    model = network()
    step, optimizer = make_step(model)
    step = wrap(step)
    losses = [step(torch.randn(5, 3)) for _ in range(steps)]
    return {
        "losses": losses,
        "parameters": [p.detach().clone() for p in model.parameters()],
        "gradients": [p.grad for p in model.parameters()],
        "state": copy.deepcopy(optimizer.state_dict()),
    }


def compare(make_step, breaks=0, steps=6):
    expected = train(make_step, lambda step: step, steps)
    before = cdynamo.counters()
    got = train(make_step, cdynamo.optimize, steps)
    after = cdynamo.counters()
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    if breaks is not None:
        assert after["graph_breaks"] - before["graph_breaks"] == breaks
    return after["graphs_compiled"] - before["graphs_compiled"]


def plain_step(make_optimizer, before_step=lambda model: None, **zero):
    def make(model):
        optimizer = make_optimizer(model.parameters())

        def step(x):
            optimizer.zero_grad(**zero)
            loss = model(x).square().mean()
            loss.backward()
            before_step(model)
            optimizer.step()
            return loss.detach()

        return step, optimizer

    return make


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_step_in_one_graph(name):
    # The first step makes gradients and the optimizer's state.
    assert compare(plain_step(OPTIMIZERS[name])) == 2


@pytest.mark.parametrize("name", IN_PYTHON)
def test_step_that_is_left_to_python(name):
    compare(plain_step(IN_PYTHON[name]), breaks=None)


@pytest.mark.parametrize("name", ["momentum", "adamw", "adamw_foreach"])
def test_step_alone(name):
    def make(model):
        optimizer = OPTIMIZERS[name](model.parameters())
        compiled = {}

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            compiled.setdefault("step", cdynamo.optimize(lambda: optimizer.step()))()
            return loss.detach()

        return step, optimizer

    expected, got = train(plain_step(OPTIMIZERS[name]), lambda f: f), train(make, lambda f: f)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_zero_grad_that_keeps_the_gradients():
    compare(plain_step(OPTIMIZERS["momentum"], set_to_none=False))


@pytest.mark.parametrize(
    "clip",
    [
        lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.1),
        lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.1, foreach=False),
        lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.1, norm_type=float("inf")),
        lambda model: nn.utils.clip_grad_value_(model.parameters(), 0.01),
    ],
)
def test_clipping(clip):
    compare(plain_step(OPTIMIZERS["momentum"], clip))


def test_clipping_that_may_raise():
    clip = lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.1, error_if_nonfinite=True)
    compare(plain_step(OPTIMIZERS["sgd"], clip), breaks=None)


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("name", ["momentum", "adamw"])
def test_a_schedule_does_not_compile_again_and_again(name, inside):
    def make(model):
        optimizer = OPTIMIZERS[name](model.parameters())
        scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            if inside:
                scheduler.step()
            return loss.detach()

        if inside:
            return step, optimizer
        compiled = []

        def outer(x):
            if not compiled:
                compiled.append(cdynamo.optimize(step))
            loss = compiled[0](x)
            scheduler.step()
            return loss

        return torch.compiler.disable(outer), optimizer

    expected = train(make, lambda step: step, steps=12)
    before = cdynamo.counters()["graphs_compiled"]
    torch.testing.assert_close(train(make, cdynamo.optimize, steps=12), expected, rtol=1e-5, atol=1e-6)
    assert cdynamo.counters()["graphs_compiled"] - before <= 4


def test_micro_batches():
    def make(model):
        optimizer = optim.AdamW(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            total = 0.0
            for part in x.split(2):
                loss = model(part).square().mean() / 3
                loss.backward()
                total = total + loss.detach()
            optimizer.step()
            return total

        return step, optimizer

    assert compare(make) == 2


def test_groups_and_frozen_parameters():
    def make(model):
        model[0].bias.requires_grad_(False)
        groups = [{"params": [model[0].weight], "lr": 0.01}, {"params": [model[0].bias, *model[2].parameters()]}]
        optimizer = optim.AdamW(groups, lr=0.1, weight_decay=0.1)
        return plain_step(lambda _: optimizer)(model)

    compare(make)


def test_averaged_weights():
    def make(model):
        average = copy.deepcopy(model)
        optimizer = optim.SGD([*model.parameters()], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for mean, p in zip(average.parameters(), model.parameters()):
                    mean.mul_(0.9).add_(p, alpha=0.1)
                return loss.detach() + sum(p.sum() for p in average.parameters())

        return step, optimizer

    compare(make)


def test_hooks_of_the_optimizer():
    def make(model):
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        optimizer.register_step_pre_hook(
            lambda opt, args, kwargs: [p.grad.mul_(2) for p in model.parameters()] and None
        )
        return plain_step(lambda _: optimizer)(model)

    compare(make)


def test_loss_scaling():
    def make(model):
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            return loss.detach()

        return step, optimizer

    compare(make, breaks=None)


@pytest.mark.parametrize("init_scale", [2.0**8, 2.0**32], ids=["fits", "overflows at first"])
@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"fused": True}], ids=str)
@pytest.mark.parametrize("make_optimizer", [optim.SGD, optim.AdamW])
def test_loss_scaling_with_autocast(make_optimizer, options, init_scale):
    def make(model):
        optimizer = make_optimizer(model.parameters(), lr=0.01, **options)
        scaler = torch.amp.GradScaler(model[0].weight.device.type, init_scale=init_scale, growth_interval=2)

        def step(x):
            optimizer.zero_grad()
            with torch.autocast(x.device.type, dtype=torch.float16):
                loss = model(x).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss.detach(), scaler.get_scale()

        return step, optimizer

    steps = 20
    expected, got = train(make, lambda step: step, steps), train(make, cdynamo.optimize, steps)
    assert [scale for _, scale in got["losses"]] == [scale for _, scale in expected["losses"]]
    torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"foreach": False}, {"fused": True}], ids=str)
def test_a_step_alone_whose_rate_changes(options, counts, caplog):
    def result(wrap):
        model = network()
        optimizer = optim.Adam(model.parameters(), lr=0.1, **options)
        step = wrap(lambda: optimizer.step())
        for i in range(6):
            optimizer.zero_grad()
            model(torch.randn(5, 3)).square().mean().backward()
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + i // 2)
            step()
        return [p.detach() for p in model.parameters()]

    torch.testing.assert_close(result(cdynamo.optimize), result(lambda step: step), rtol=1e-4, atol=1e-5)
    assert "internal error" not in caplog.text


def test_factors_that_are_tensors():
    def function(x, y, z, s):
        out = torch.add(x, y, alpha=s), torch.sub(x, y, alpha=s), torch.addcmul(x, y, z, value=s)
        copy_of = x.clone()
        copy_of.addcdiv_(y, z, value=s)
        return *out, copy_of, torch.addcdiv(x, y, z, value=s)

    x, y, z = torch.randn(3, 4), torch.randn(3, 4), torch.rand(4) + 1
    compiled = cdynamo.optimize(function)
    for s in (0.5, -2.0):
        torch.testing.assert_close(compiled(x, y, z, torch.tensor(s)), function(x, y, z, torch.tensor(s)))


def test_foreach_functions():
    def function(xs, ys):
        sums = torch._foreach_add(xs, ys, alpha=0.5)
        torch._foreach_mul_(sums, [2.0, 3.0])
        torch._foreach_lerp_(sums, ys, 0.25)
        return sums, torch._foreach_norm(sums, 2), torch._foreach_maximum(sums, ys)

    xs, ys = [torch.randn(3), torch.randn(2, 2)], [torch.randn(3), torch.randn(2, 2)]
    before = cdynamo.counters()["graph_breaks"]
    torch.testing.assert_close(cdynamo.optimize(function)(xs, ys), function(xs, ys))
    assert cdynamo.counters()["graph_breaks"] == before


def test_ranges_of_the_profiler():
    def function(x):
        with torch.autograd.profiler.record_function("part"):
            return x.sin() * 2

    x = torch.randn(3)
    before = cdynamo.counters()["graph_breaks"]
    torch.testing.assert_close(cdynamo.optimize(function)(x), function(x))
    assert cdynamo.counters()["graph_breaks"] == before


@pytest.mark.parametrize("rows", [7, 4096])
def test_an_index_out_of_range_leaves_all_as_eager_does(rows):
    """The error comes before anything is written: neither parameters nor the optimizer's state are touched."""

    def make():
        torch.manual_seed(0)
        table = nn.Embedding(rows, 64)
        seen = torch.zeros(())
        optimizer = optim.AdamW(table.parameters(), lr=0.1)

        def step(i):
            seen.add_(1)
            optimizer.zero_grad()
            loss = table(i).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, table, optimizer, seen

    results = []
    for wrap in (lambda f: f, cdynamo.optimize):
        step, table, optimizer, seen = make()
        step, found = wrap(step), []
        for k in range(5):
            i = torch.randint(0, rows, (64,))
            i[5] = rows + 3 if k == 3 else 1
            if k == 3:
                with pytest.raises(IndexError):
                    step(i)
            else:
                found.append(step(i))
            found += [table.weight.detach().clone(), table.weight.grad, seen.clone()]
        results.append([found, copy.deepcopy(optimizer.state_dict())])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
