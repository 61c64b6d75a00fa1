"""Tensors that captured code makes to require grad: requires_grad_(), factories, parameters and small modules."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

import cdynamo  # noqa: E402

pytestmark = pytest.mark.native  # backends in Python get a graph break there

nn = torch.nn


class Scale(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.full((size,), 2.0))
        self.bias = nn.Parameter(torch.ones(size), requires_grad=False)
        self.register_buffer("shift", torch.arange(float(size)))

    def forward(self, x):
        return x * self.weight + self.bias + self.shift


def plain():
    return torch.arange(4.0)


def leaf():
    return torch.arange(4.0).requires_grad_()


def facts(value):
    if isinstance(value, (tuple, list)):
        return [facts(item) for item in value]
    if isinstance(value, nn.Module):
        return type(value), [(n, facts(p)) for n, p in value.named_parameters()], facts([*value.buffers()])
    if not isinstance(value, torch.Tensor):
        return value
    history = value.is_leaf, value.requires_grad, value.grad_fn is None
    return type(value), history, facts(value.grad) if value.is_leaf else None


def numbers(value):
    if isinstance(value, nn.Module):
        return [*value.state_dict().values()]
    if isinstance(value, (tuple, list)):
        return [n for item in value for n in numbers(item)]
    return [value.detach()] if isinstance(value, torch.Tensor) else []


def check(fn, make=plain, fullgraph=True):
    """Results, what they are to autograd, and gradients of the argument."""
    cdynamo.reset()
    fast = cdynamo.optimize(fn, fullgraph=fullgraph)
    for _ in range(3):
        outcomes = []
        for call in (fn, fast):
            torch.manual_seed(0)
            x = make()
            result = call(x)
            described = facts(result)
            for item in result if isinstance(result, (tuple, list)) else [result]:
                if isinstance(item, torch.Tensor) and item.requires_grad and not item.is_leaf:
                    item.sum().backward(retain_graph=True)
            outcomes.append((described, numbers(result), x.grad))
        assert outcomes[0][0] == outcomes[1][0]
        torch.testing.assert_close(outcomes[1][1:], outcomes[0][1:], rtol=1e-5, atol=1e-4)


def of_ones(x):
    w = torch.ones(4).requires_grad_()
    return (x * w).sum(), w.is_leaf, w.requires_grad, w.grad


def of_factories(x):
    made = torch.full((4,), 3.0, requires_grad=True), torch.tensor([1.0, 2, 3, 4], requires_grad=True)
    more = torch.rand(4, requires_grad=True), torch.zeros_like(x, requires_grad=True)
    return x * made[0] + made[1] * more[0], (more[1] + x).sum(), torch.ones(4, requires_grad=False)


def returned(x):
    w = (x.detach() * 2).requires_grad_()
    return w, nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2), requires_grad=False), x + 1


def derivative_inside(x):
    w = torch.ones(4, requires_grad=True)
    loss = (x.detach() * w * w).sum()
    (gradient,) = torch.autograd.grad(loss, w)
    return gradient, x * 2


def gradient_penalty(x):
    mixed = (x.detach() * 0.5 + 1).requires_grad_()
    score = (mixed**3).sum()
    (gradient,) = torch.autograd.grad(score, mixed, create_graph=True)
    return (gradient.norm() - 1) ** 2


def backward_inside(x):
    w = torch.ones(4, requires_grad=True)
    (x.detach() * w).sum().backward()
    (x.detach() * w * w).sum().backward()
    return w.grad


def leaf_with_gradient(x):
    w = torch.ones(4, requires_grad=True)
    (x.detach() * w).sum().backward()
    return w


def step_inside(x):
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    loss = (model(x.detach()) - 1).square().sum()
    loss.backward()
    first, last = model[0].weight, model[2].bias
    return first.grad, last.grad, loss.detach()


def frozen(x):
    model = nn.Sequential(nn.Linear(4, 2), Scale(2)).requires_grad_(False)
    model[1].bias.requires_grad_(True)
    return model(x), model[0].weight.requires_grad, model[1].bias.requires_grad


def written_without_history(x):
    w = torch.ones(4, requires_grad=True)
    with torch.no_grad():
        w.mul_(3)
    (gradient,) = torch.autograd.grad((x.detach() * w * w).sum(), w)
    return gradient, w.detach()


def no_grad_region(x):
    with torch.no_grad():
        w = torch.ones(4).requires_grad_()
        y = x * w
    return y, y.requires_grad


def dropped_modules(x):
    return Scale(4)(x), nn.Linear(4, 2)(x), nn.LayerNorm(4)(x), nn.Embedding(3, 4)(torch.tensor([1, 2]))


def returned_module(x):
    return Scale(4), x * 2


def sequence_of_modules(x):
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    return net(x), len(list(net.parameters())), sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize("make", [plain, leaf])
@pytest.mark.parametrize(
    "fn",
    [
        of_ones,
        of_factories,
        returned,
        derivative_inside,
        gradient_penalty,
        backward_inside,
        leaf_with_gradient,
        step_inside,
        frozen,
        written_without_history,
        no_grad_region,
        dropped_modules,
        returned_module,
        sequence_of_modules,
    ],
    ids=lambda fn: fn.__name__,
)
def test_leaves(fn, make):
    check(fn, make)


# ---- leaves on memory that others have too: x.detach().requires_grad_()


def perturbed(x):
    y = x.clone().detach().requires_grad_(True)
    (y.sin() * y).sum().backward()
    return (y + 0.1 * y.grad.sign()).detach(), y.grad


def of_what_came_in(x):
    y = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(y.sin().sum(), y)
    return x - gradient, y.requires_grad, y.is_leaf, y is x


def by_assignment(x):
    y = x.detach()
    y.requires_grad = True
    return torch.autograd.grad(y.exp().sum(), y)[0]


def of_a_view(x):
    y = x.reshape(2, 2)[0].detach().requires_grad_()
    (y * y).sum().backward()
    return y.grad.view(-1)


def in_a_loop(x):
    step = torch.zeros_like(x, requires_grad=True)
    for _ in range(3):
        (gradient,) = torch.autograd.grad(((x + step) ** 2).sum(), step)
        step = (step + 0.1 * gradient.sign()).clamp(-0.15, 0.15).detach().requires_grad_()
    return x + step.detach()


def beside_a_history(x):
    h = x * 2
    y = h.detach().requires_grad_()
    (gradient,) = torch.autograd.grad((y**2).sum(), y)
    return h * gradient


def leaves_alone(x):
    return x.detach().requires_grad_()


def leaves_after_a_step(x):
    y = x.detach().requires_grad_()
    y.sin().sum().backward()
    return y


def its_results_leave(x):
    y = x.detach().requires_grad_()
    return y.sin()


VIEWS = [
    perturbed, of_what_came_in, by_assignment, of_a_view, in_a_loop, beside_a_history, leaves_alone, leaves_after_a_step,
    its_results_leave,
]  # fmt: skip


@pytest.mark.parametrize("make", [plain, leaf], ids=["plain", "leaf"])
@pytest.mark.parametrize("fn", VIEWS, ids=lambda fn: fn.__name__)
def test_leaves_on_memory_of_others(fn, make):
    check(fn, make)


def writes_to_the_other(x):
    y = x.detach().requires_grad_()
    with torch.no_grad():
        x.mul_(2)
    return (y * y).sum().detach()


def writes_to_the_leaf(x):
    y = x.detach().requires_grad_()
    with torch.no_grad():
        y.add_(1)
    return (y * y).sum().detach(), x * 1


def is_none_any_more(x):
    y = x.detach()
    y.requires_grad_()
    y.requires_grad = False
    y.add_(1)
    return y, x * 1


def has_views(x):
    y = torch.from_numpy(x.detach().numpy())
    flat = y.ravel()
    y.requires_grad_()
    return flat.requires_grad, flat.detach()


def with_gaps(x):
    y = x[::2].detach().requires_grad_()
    return torch.autograd.grad(y.exp().sum(), y)[0], y.stride()


@pytest.mark.parametrize("make", [plain, leaf], ids=["plain", "leaf"])
@pytest.mark.parametrize(
    "fn", [writes_to_the_other, writes_to_the_leaf, is_none_any_more, has_views, with_gaps], ids=lambda fn: fn.__name__
)
def test_memory_that_is_written_to_is_pythons(fn, make):
    fast = cdynamo.optimize(fn)
    for _ in range(3):
        a, b = make(), make()
        torch.testing.assert_close(fast(a), fn(b))
        assert torch.equal(a, b)


def test_a_leaf_that_leaves_is_on_the_memory():
    x = plain()
    y = cdynamo.optimize(leaves_alone, fullgraph=True)(x)
    assert y.data_ptr() == x.data_ptr()
    x.mul_(2)
    assert torch.equal(x, y)


def test_a_leaf_that_leaves_with_what_is_computed_of_it_is_pythons():
    def both(x):
        w = torch.ones(4, requires_grad=True)
        return w, (x * w).sum()

    check(both, fullgraph=False)
    w, loss = cdynamo.optimize(both)(plain())
    loss.backward()
    assert torch.equal(w.grad, plain())
    with pytest.raises(cdynamo.GraphBreakError):
        cdynamo.optimize(both, fullgraph=True)(plain())


def test_a_module_that_leaves_can_be_trained():
    module, _ = cdynamo.optimize(returned_module, fullgraph=True)(plain())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    module(plain()).sum().backward()
    optimizer.step()
    assert torch.allclose(module.weight, 2 - 0.1 * plain()) and module.bias.grad is None


def test_errors_are_eagers():
    for fn in (
        lambda x: torch.ones(2, dtype=torch.int64).requires_grad_(),
        lambda x: (x * 2).requires_grad_(False),
        lambda x: torch.ones(4, requires_grad=True).mul_(2),
        lambda x: torch.autograd.grad((x * torch.ones(4, requires_grad=True)).sum(), torch.ones(4, requires_grad=True)),
    ):
        with pytest.raises(RuntimeError):
            fn(leaf())
        with pytest.raises(RuntimeError):
            cdynamo.optimize(fn)(leaf())


# ---- copies of modules

MODEL = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), Scale(4))


def deep(x):
    # Rows that differ: of equal ones a normalization divides rounding by rounding.
    return copy.deepcopy(MODEL)(x * torch.arange(1.0, 4.0)[:, None])


def deep_and_returned(x):
    copied = copy.deepcopy(MODEL)
    copied[2].extra = x + 1
    return copied, copied is MODEL, copied[0].weight is MODEL[0].weight, copied.training


def tied(x):
    pair = nn.ModuleList([MODEL[0], MODEL[0]])
    copied = copy.deepcopy(pair)
    return copied[0] is copied[1], copied[0].weight is copied[1].weight, x


def shallow(x):
    copied = copy.copy(MODEL[2])
    copied.scale = 3
    return copied(x) * copied.scale, copied.weight is MODEL[2].weight, hasattr(MODEL[2], "scale")


def parameter(x):
    copied = copy.deepcopy(MODEL[0].weight)
    return copied, x * 2


@pytest.mark.parametrize("fn", [deep, deep_and_returned, tied, shallow, parameter], ids=lambda fn: fn.__name__)
def test_copies_of_modules(fn):
    before = copy.deepcopy(MODEL.state_dict())
    check(fn)
    torch.testing.assert_close(MODEL.state_dict(), before)


def test_a_copied_module_is_another():
    copied, *_ = cdynamo.optimize(deep_and_returned, fullgraph=True)(plain())
    with torch.no_grad():
        copied[0].weight.zero_()
    assert MODEL[0].weight.abs().sum() > 0
    copied(torch.randn(3, 4)).sum().backward()
    assert MODEL[0].weight.grad is None and copied[0].weight.grad is not None


def test_tensors_that_share_memory_are_copied_as_one():
    def copied(tensors):
        return copy.deepcopy(tensors)

    cdynamo.reset()
    fast = cdynamo.optimize(copied)
    whole = torch.arange(4.0)
    for tensors in ([torch.ones(2), torch.zeros(2)], [whole[:2], whole[2:]], [whole[:2], whole[1:3]]):
        for call in (copied, fast):
            first, second = call(tensors)
            second.add_(1)
            first.mul_(3)
            expected = copied(tensors)
            expected[1].add_(1)
            expected[0].mul_(3)
            assert torch.equal(first, expected[0]) and torch.equal(second, expected[1])


def view_of_an_input(x):
    parameter = nn.Parameter(torch.ones(3) * 2)
    with torch.no_grad():
        return x[2], parameter


def view_of_a_made_leaf(x):
    parameter = nn.Parameter(torch.ones(3) * 2)
    with torch.no_grad():
        view = parameter[0:1]
    return view, parameter[1:] * 2


@pytest.mark.parametrize("program", [view_of_an_input, view_of_a_made_leaf])
@pytest.mark.parametrize("make", [lambda x: x.requires_grad_(), lambda x: x.clone().requires_grad_(), lambda x: x])
def test_views_without_a_history(program, make):
    want, got = [run(make(torch.arange(9.0).reshape(3, 3))) for run in (program, cdynamo.optimize(program))]
    for x, y in zip(want, got, strict=True):
        assert (x.requires_grad, x.grad_fn is None) == (y.requires_grad, y.grad_fn is None)
        torch.testing.assert_close(y, x)


def hook_and_gradient(x):
    y = x.clone().detach().requires_grad_()
    y.register_hook(lambda grad: grad * 3)
    return torch.autograd.grad((y * y).sum(), y)[0]


def hook_and_backward(x):
    y = x.detach().requires_grad_()
    y.register_hook(lambda grad: grad * 3)
    cdynamo.graph_break()
    (y * y).sum().backward()
    return y.grad


def hook_and_leaf(x):
    y = x.clone().detach().requires_grad_()
    y.register_hook(lambda grad: grad * 3)
    return y


@pytest.mark.parametrize("fn", [hook_and_gradient, hook_and_backward, hook_and_leaf], ids=lambda fn: fn.__name__)
def test_a_hook_of_a_made_leaf_is_called(fn):
    fast = cdynamo.optimize(fn)
    for _ in range(2):
        got, expected = fast(plain()), fn(plain())
        if fn is hook_and_leaf:
            for y in (got, expected):
                (y * y).sum().backward()
            got, expected = got.grad, expected.grad
        torch.testing.assert_close(got, expected)


def test_hooks_of_what_comes_in_see_gradients_that_are_asked_for():
    def gradient(x):
        return torch.autograd.grad((x * x).sum(), x)[0] + 1

    fast = cdynamo.optimize(gradient)
    for hooked in (False, True, True, False):
        x = leaf()
        if hooked:
            x.register_hook(lambda grad: grad * 3)
        torch.testing.assert_close(fast(x), gradient(x))
