"""Hooks of tensors that are registered inside of a compiled function: every gradient is eager's."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from training_check import assert_close, check, leaf  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def scaled(x):
    y = x.sin()
    y.register_hook(lambda g: g * 2)
    return y * x


def read_before(x):
    y = x.sin()
    z = y * x
    y.register_hook(lambda g: g * 2)
    return z + y.exp()


def two(x):
    y = x * 1
    y.register_hook(lambda g: g * 2)
    z = y * x
    y.register_hook(lambda g: g + 1)
    return z + y


def clipped(x, w):
    y = x @ w
    y.register_hook(lambda g: g.clamp(-0.1, 0.1))
    return y.tanh()


def reads_tensors(x, w):
    y = x.sin()
    z = w.cos()
    y.register_hook(lambda g: g * z.detach() + y.detach())
    return y * x


def reads_what_came_later(x):
    y = x.sin()
    z = y * x
    w = x.cos()
    y.register_hook(lambda g: g * w.detach())
    return z + y


def written_since(x):
    y = x * 1
    y.register_hook(lambda g: g * 2)
    y.mul_(3)
    y.register_hook(lambda g: g + 1)
    return y * x


def read_before_a_write(x):
    y = x.sin()
    z = x.cos()
    w = y.exp()
    z.mul_(2)
    y.register_hook(lambda g: g * 2)
    return w + y * z


def of_a_view(x):
    y = x * 2
    v = y[:2]
    w = v * 3
    v.register_hook(lambda g: g * 5)
    return (v * v).sum() + y.sum() + w.sum()


def of_an_input(x):
    y = x * 2
    x.register_hook(lambda g: g * 7)
    return y * x


def of_a_result(x):
    y = x.sin()
    y.register_hook(lambda g: g * 2)
    return y, y * 3


def that_does_nothing(x):
    y = x.sin()
    y.register_hook(lambda g: None)
    return y * x


def in_a_loop(x):
    for _ in range(3):
        x = x.sin()
        x.register_hook(lambda g: g * 2)
    return x


@pytest.mark.parametrize(
    ("function", "arguments", "breaks"),
    [
        (scaled, 1, 0), (read_before, 1, 0), (two, 1, 0), (clipped, 2, 0), (reads_tensors, 2, 0), (written_since, 1, 0),
        (of_an_input, 1, 0), (of_a_result, 1, 0), (that_does_nothing, 1, 0), (in_a_loop, 1, 0),
        (reads_what_came_later, 1, None), (read_before_a_write, 1, None), (of_a_view, 1, None),
    ],
)  # fmt: skip
def test_gradients(function, arguments, breaks):
    before = cdynamo.counters()["graph_breaks"]
    check(function, *[leaf(4, 4) for _ in range(arguments)])
    if breaks is not None:
        assert cdynamo.counters()["graph_breaks"] - before == breaks


def logs(build):
    """What hooks saw, and gradients, in eager and compiled."""
    found = []
    for wrap in (lambda f: f, cdynamo.optimize):
        torch.manual_seed(1)
        log = []
        function = wrap(build(log))
        for _ in range(3):
            x = leaf(4)
            function(x).sum().backward()
            log.append(x.grad)
        found.append(log)
    eager, compiled = found
    assert len(eager) == len(compiled)
    for a, b in zip(compiled, eager):
        assert_close(a, b)


def test_a_hook_that_changes_something_runs_when_the_gradient_comes():
    def build(log):
        def function(x):
            y = x.sin()
            z = y * x
            y.register_hook(lambda g: log.append(g.clone()))
            return z + y

        return function

    logs(build)


def test_a_hook_that_fills_what_the_function_made():
    def function(x):
        seen = []
        last = None
        y = x.sin()

        def hook(g):
            nonlocal last
            last = g
            seen.append(g)

        y.register_hook(hook)
        return (y * x).sum(), seen, lambda: last

    x = leaf(3)
    loss, seen, last = cdynamo.optimize(function)(x)
    assert seen == [] and last() is None
    loss.backward()
    torch.testing.assert_close(seen[0], x.detach())
    assert last() is seen[0]


def test_a_hook_that_draws_random_numbers():
    def build(log):
        def function(x):
            y = x.sin()
            z = y * x
            y.register_hook(lambda g: g + torch.randn_like(g))
            return z + y

        return function

    logs(build)


def test_what_was_read_where_it_was_made():
    def inner(x):
        y = x.sin()
        return y, y * x

    def build(log):
        def function(x):
            y, z = inner(x)
            y.register_hook(lambda g: log.append(g.clone()))
            return z + y

        return function

    logs(build)


def test_handles():
    def function(x):
        y = x.sin()
        z = y * x
        handle = y.register_hook(lambda g: g * 2)
        handle.remove()
        return z + y

    check(function, leaf(4))

    def hooked(x):
        y = x.sin()
        z = y * x
        return z + y, y.register_hook(lambda g: g * 2)

    x = leaf(4)
    out, handle = cdynamo.optimize(hooked)(x)
    handle.remove()
    out.sum().backward()
    other = x.detach().requires_grad_()
    (other.sin() * other + other.sin()).sum().backward()
    torch.testing.assert_close(x.grad, other.grad)


def test_retained_gradients():
    def build(log):
        def function(x):
            x.retain_grad()
            y = x.sin()
            z = y * x
            y.retain_grad()
            log.append(y)
            return z + y

        return function

    logs(build)
    x = leaf(3)
    y = x * 1
    cdynamo.optimize(lambda t: (t.retain_grad(), t * t)[1])(y).sum().backward()
    torch.testing.assert_close(y.grad, 2 * y.detach())


def test_hooks_of_parameters():
    weight = nn.Parameter(torch.ones(3))
    done = []

    @cdynamo.optimize
    def loss(x):
        weight.register_post_accumulate_grad_hook(lambda p: done.append(p.grad.tolist()))
        return (weight * x).sum()

    loss(torch.ones(3)).backward()
    assert done == [[1.0, 1.0, 1.0]]


def test_backward_and_grad_inside():
    weight = nn.Parameter(torch.ones(3))

    def step(x):
        y = x * weight
        y.register_hook(lambda g: g * 2)
        (y * y).sum().backward()

    def with_hook_of_the_parameter(x):
        weight.register_hook(lambda g: g * 3)
        (x * weight).sum().backward()

    for function, expected in ((step, 16.0), (with_hook_of_the_parameter, 2 * 3.0)):
        weight.grad = None
        cdynamo.optimize(function)(torch.full((3,), 2.0))
        assert weight.grad.tolist() == [expected] * 3

    def gradient(x):
        y = x * x
        y.register_hook(lambda g: g * 2)
        return torch.autograd.grad((y * y).sum(), y)[0]

    x = leaf(3)
    torch.testing.assert_close(cdynamo.optimize(gradient)(x), gradient(x))


def test_only_one_result_has_a_gradient():
    def function(x, z):
        y = x.sin()
        y.register_hook(lambda g: g * 2)
        return y.sum(), (z * z).sum()

    x, z = leaf(3), leaf(3)
    cdynamo.optimize(function)(x, z)[1].backward()
    assert x.grad is None
    torch.testing.assert_close(z.grad, 2 * z.detach())


def test_without_history_the_error_is_eager_s():
    def function(x):
        y = x.sin()
        y.register_hook(lambda g: g * 2)
        return y

    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        cdynamo.optimize(function)(torch.ones(3))


def test_tangents_of_forward_mode_are_seen():
    import torch.autograd.forward_ad as forward_ad

    def inner(x):
        return x.sin() * x

    def function(x, t):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(inner(forward_ad.make_dual(x, t))).tangent

    x, t = torch.randn(3), torch.randn(3)
    expected = function(x, t)
    compiled = cdynamo.optimize(inner)
    torch.testing.assert_close(compiled(x), inner(x))
    with forward_ad.dual_level():
        torch.testing.assert_close(forward_ad.unpack_dual(compiled(forward_ad.make_dual(x, t))).tangent, expected)
    torch.testing.assert_close(cdynamo.optimize(function)(x, t), expected)


def test_higher_derivatives():
    check_twice = lambda f, x: torch.autograd.grad(
        torch.autograd.grad(f(x).sum(), x, create_graph=True)[0].square().sum(), x
    )[0]
    x = leaf(4)
    torch.testing.assert_close(check_twice(cdynamo.optimize(scaled), x), check_twice(scaled, x))

    def clamped(x):
        y = x.sin()
        y.register_hook(lambda g: g.clamp(-0.1, 0.1))
        return y * x

    with pytest.raises(RuntimeError, match="not linear"):
        check_twice(cdynamo.optimize(clamped), x)


@pytest.mark.parametrize("which", [0, 1])
def test_gradients_and_hooks_of_one_of_several_results(which):
    """What a gradient is asked for of, or a hook is put on, comes out of the graph before: any of an operator's results."""

    def asks(y):
        row = (y * 2).unbind()[which]
        return torch.autograd.grad(row.sum(), row, allow_unused=True)[0]

    def keeps(y):
        row = (y * 2).unbind()[which]
        row.retain_grad()
        (row * row).sum().backward()
        return row.grad

    def hooks(y):
        row = (y * 2).unbind()[which]
        total = (row * row).sum()
        seen = []
        row.register_hook(seen.append)
        total.backward()
        return seen[0]

    for function in (asks, keeps, hooks):
        got, expected = (
            f(torch.arange(6.0).reshape(2, 3).requires_grad_()) for f in (cdynamo.optimize(function), function)
        )
        assert torch.equal(got, expected)


def removed_before_use(x):
    y = x.sin()
    handle = y.register_hook(lambda g: g * 2)
    handle.remove()
    return y * x


def removed_after_use(x):
    y = x.sin()
    handle = y.register_hook(lambda g: g * 2)
    z = y * x
    handle.remove()
    handle.remove()
    return z + y


def removed_by_with(x):
    y = x.sin()
    with y.register_hook(lambda g: g * 2):
        z = y * x
    return z


def one_of_two_removed(x):
    y = x.sin()
    first = y.register_hook(lambda g: g * 2)
    y.register_hook(lambda g: g + 1)
    z = y * x
    first.remove()
    return z


def removed_of_input(x):
    handle = x.register_hook(lambda g: g * 2)
    kept = x.register_hook(lambda g: g + 1)
    y = x.sin()
    handle.remove()
    return y, kept is None


def removed_that_gives_none(x):
    y = x.sin()
    handle = y.register_hook(lambda g: None)
    handle.remove()
    return y * x


@pytest.mark.native
@pytest.mark.parametrize(
    "function",
    [
        removed_before_use,
        removed_after_use,
        removed_by_with,
        one_of_two_removed,
        removed_that_gives_none,
    ],
)
def test_hooks_are_removed(function):
    check(function, leaf(4), fullgraph=True)


@pytest.mark.native
def test_hooks_of_inputs_are_removed():
    grads = []
    for f in (removed_of_input, cdynamo.optimize(removed_of_input, fullgraph=True)):
        x = torch.linspace(0, 1, 4).requires_grad_()
        y, flag = f(x)
        y.sum().backward()
        grads.append(x.grad)
        assert not flag and len(x._backward_hooks) == 1
    assert_close(grads[1], grads[0])


def test_a_hook_that_a_gradient_has_gone_through_is_removed():
    weight = nn.Parameter(torch.linspace(0, 1, 4))

    def f(x):
        y = weight * x
        handle = y.register_hook(lambda g: g * 3)
        (a,) = torch.autograd.grad(y.sum(), weight, retain_graph=True)
        handle.remove()
        (b,) = torch.autograd.grad(y.sum(), weight)
        return a, b

    x = torch.linspace(1, 2, 4)
    for got, wanted in zip(cdynamo.optimize(f)(x), f(x), strict=True):
        assert_close(got, wanted)


# ---- .grad, is_leaf and grad_fn


def test_gradients_of_inputs_are_read():
    def f(x):
        return x * 2 if x.grad is None else x.grad * 3

    fast = cdynamo.optimize(f, fullgraph=True)
    x = torch.linspace(0, 1, 4).requires_grad_()
    assert_close(fast(x), f(x))
    x.grad = torch.ones(4)
    assert_close(fast(x), f(x))
    x.grad = None
    assert_close(fast(x), f(x))
    with pytest.warns(UserWarning, match="non-leaf"):
        cdynamo.optimize(f)(x * 2)


def test_gradients_of_inputs_are_set():
    def f(x):
        x.grad = None
        return x.sin()

    for function in (f, cdynamo.optimize(f, fullgraph=True)):
        x = torch.linspace(0, 1, 4).requires_grad_()
        for _ in range(2):
            function(x).sum().backward()
        assert_close(x.grad, x.detach().cos())


def test_leaves_are_known():
    def f(x):
        y = x * 2
        return y, x.is_leaf, y.is_leaf, y.grad_fn is None, x.requires_grad and y.grad_fn is not None

    fast = cdynamo.optimize(f, fullgraph=True)
    x = torch.linspace(0, 1, 4).requires_grad_()
    for given in (x, x * 2, x.detach(), x):
        assert fast(given)[1:] == f(given)[1:]


def test_a_grad_fn_is_there_and_no_more_is_known():
    def f(x):
        y = x * 2
        return y.detach(), y.grad_fn is y.grad_fn, y.grad_fn == None, y.grad_fn is None  # noqa: E711

    x = torch.linspace(0, 1, 4).requires_grad_()
    assert cdynamo.optimize(f)(x)[1:] == f(x)[1:]
    assert cdynamo.optimize(lambda x: type((x * 2).grad_fn).__name__)(x).endswith("Backward")


def test_backward_to_an_input():
    def f(x):
        (x * x).sum().backward()
        return x.grad * 2

    results = []
    for function in (f, cdynamo.optimize(f, fullgraph=True)):
        x = torch.linspace(0, 1, 4).requires_grad_()
        results.append([function(x).clone(), function(x).clone(), x.grad])
    for got, wanted in zip(results[1], results[0], strict=True):
        assert_close(got, wanted)
