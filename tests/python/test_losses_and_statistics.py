"""Losses and running statistics that PyTorch's modules offer, and content that is set past the gradient."""

from __future__ import annotations

import copy

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


def gradients(function, *args, twice=False):
    """The results and the gradients of what requires grad; with `twice` also those of the gradients' squares."""
    out = function(*args)
    wanted = [x for x in args if isinstance(x, torch.Tensor) and x.requires_grad]
    first = torch.autograd.grad(out.sum(), wanted, create_graph=twice)
    if not twice:
        return (out, *first)
    return (out, *first, *torch.autograd.grad(sum((g * g).sum() for g in first), wanted, allow_unused=True))


def check(function, *args, twice=False, **tolerance):
    compiled = cdynamo.optimize(function, fullgraph=True)
    want, got = (gradients(f, *args, twice=twice) for f in (function, compiled))
    for w, g in zip(want, got):
        torch.testing.assert_close(g, w, **tolerance)


def probabilities(*sizes, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    return torch.rand(*sizes, dtype=torch.float64, generator=generator).to(dtype)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_binary_cross_entropy(reduction, dtype):
    x, y = probabilities(5, 3, dtype=dtype).requires_grad_(), probabilities(5, 3, dtype=dtype).flip(0)
    weight = probabilities(3, dtype=dtype)
    loose = {"rtol": 2e-2, "atol": 2e-2} if dtype is torch.bfloat16 else {}
    check(lambda x, y: F.binary_cross_entropy(x, y, reduction=reduction), x, y, **loose)
    check(lambda x, y: F.binary_cross_entropy(x, y, weight, reduction=reduction), x, y, **loose)
    check(lambda x, y: F.binary_cross_entropy(x, y, reduction=reduction), x, y.requires_grad_(), **loose)


def test_binary_cross_entropy_at_the_corners():
    x = torch.tensor([0.0, 1.0, 0.0, 1.0, 1e-30, 0.5], requires_grad=True)
    y = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.25], requires_grad=True)
    check(lambda x, y: F.binary_cross_entropy(x, y, reduction="none"), x, y)


def test_gradients_of_the_gradients_of_binary_cross_entropy():
    x, y = probabilities(5, 3).requires_grad_(), probabilities(5, 3).flip(0)
    check(lambda x, y: F.binary_cross_entropy(x, y), x, y, twice=True)


@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("number", [-0.25, 1.5, float("nan")])
def test_what_is_no_probability(number, operand):
    def f(x, y):
        return F.binary_cross_entropy(x, y)

    compiled = cdynamo.optimize(f)
    x, y = torch.tensor([0.5, 0.25, 0.75]), torch.tensor([1.0, 0.0, 1.0])
    torch.testing.assert_close(compiled(x, y), f(x, y))
    (x, y)[operand][1] = number
    for function in (f, compiled):
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            function(x, y)


def test_a_weight_that_requires_grad_is_refused():
    x, y, weight = probabilities(3).requires_grad_(), probabilities(3), probabilities(3).requires_grad_()
    for function in (F.binary_cross_entropy, cdynamo.optimize(lambda *args: F.binary_cross_entropy(*args))):
        with pytest.raises(RuntimeError, match="weight"):
            function(x, y, weight).backward()


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("ignored", [-100, 1])
def test_cross_entropy_with_weights_and_smoothing(reduction, ignored):
    x = torch.linspace(-2, 2, 24, dtype=torch.float64).sin().reshape(2, 3, 4).requires_grad_()
    target = torch.tensor([[0, 1, 2, 1], [2, 0, 1, 0]])
    options = {"reduction": reduction, "label_smoothing": 0.2, "ignore_index": ignored}
    weight = probabilities(3) + 0.5
    check(lambda x: F.cross_entropy(x, target, weight, **options), x)
    check(lambda x: F.cross_entropy(x, target, **options), x)


@pytest.mark.parametrize(
    "loss",
    [
        lambda x, target: F.nll_loss(x, target, torch.ones(3, dtype=torch.float16)),
        lambda x, target: F.cross_entropy(x, target, torch.ones(3, dtype=torch.float64)),
        lambda x, target: F.cross_entropy(x, x.softmax(1), ignore_index=1),
    ],
    ids=["half weights", "wide weights", "ignored probabilities"],
)
def test_what_eager_refuses(loss):
    x, target = torch.linspace(-1, 1, 12).reshape(4, 3), torch.tensor([0, 2, 1, 0])
    messages = []
    for function in (loss, cdynamo.optimize(loss)):
        with pytest.raises(RuntimeError) as error:
            function(x, target)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("make, sizes", [(nn.InstanceNorm1d, (4, 3, 5)), (nn.InstanceNorm2d, (2, 3, 4, 5))])
def test_running_statistics_of_instances(make, sizes, affine):
    plain = make(3, affine=affine, track_running_stats=True, dtype=torch.float64)
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.copy_(torch.linspace(0.5, 2, 3))
    ours = copy.deepcopy(plain)
    compiled = cdynamo.optimize(lambda x: ours(x).sin(), fullgraph=True)
    for step in range(6):
        for module in (plain, ours):
            module.train(step < 4)
        ends = []
        for function in (lambda x: plain(x).sin(), compiled):
            x = (
                torch.linspace(-3, 3, 120, dtype=torch.float64)[: torch.Size(sizes).numel()].reshape(sizes) + step
            ).requires_grad_()
            out = function(x)
            ends.append((out, *torch.autograd.grad(out.sum(), x)))
        torch.testing.assert_close(*ends)
        torch.testing.assert_close(dict(ours.state_dict()), dict(plain.state_dict()))


def bounded(x):
    y = x * 2
    with torch.no_grad():
        y.clamp_(min=0.5)
    return y * x


def a_part(x):
    y = x * 2
    with torch.no_grad():
        y[0].mul_(5)
        y[1] = 7
    return y * x + y.sin()


def a_view_made_before(x):
    y = x * 2
    row = y[0]
    with torch.no_grad():
        y.add_(1)
    return row * y.sum()


def twice(x):
    y = x * 2
    with torch.no_grad():
        y.copy_(x.detach() * 7)
        y.t().zero_()
    y.mul_(x + 3)
    return y + x


@pytest.mark.native  # backends in Python run the write between two graphs
@pytest.mark.parametrize("function", [bounded, a_part, a_view_made_before, twice])
def test_content_that_is_set_past_the_gradient(function):
    check(function, torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3).requires_grad_())


@pytest.mark.native
def test_gaussian_likelihood():
    x, target = probabilities(5, 3).requires_grad_(), probabilities(5, 3).flip(0)
    variance = (probabilities(5, 3) - 0.3).clamp(min=0).requires_grad_()
    check(F.gaussian_nll_loss, x, target, variance)
    check(nn.GaussianNLLLoss(full=True, eps=0.25, reduction="sum"), x, target, variance)


@pytest.mark.native
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"])
def test_comparisons_in_place(name):
    """Of a comparison eager makes gradients of zeros; of what its autograd does not look at, the tensor's history stays."""

    def f(x, other):
        y = x * 2
        getattr(y, name + "_")(other)
        return y * 3

    ends = []
    for run in (f, cdynamo.optimize(f, fullgraph=True)):
        x, other = (torch.linspace(-1, 1, 6).roll(i).requires_grad_() for i in range(2))
        out = run(x, other)
        ends.append((out, torch.autograd.grad(out.sum(), (x, other), allow_unused=True)))
    assert torch.equal(ends[0][0], ends[1][0])
    for want, got in zip(ends[0][1], ends[1][1]):
        assert (want is None) == (got is None) and (want is None or torch.equal(want, got))


def test_statistics_of_no_instances_stay():
    def f(x, mean, var):
        return F.instance_norm(x, mean, var, use_input_stats=True, momentum=0.5)

    ends = []
    for run in (f, cdynamo.optimize(f)):
        mean, var = torch.zeros(3), torch.ones(3)
        ends.append((run(torch.ones(1, 3, 0), mean, var), mean, var))
    torch.testing.assert_close(*ends)


MARGIN_LOSSES = {
    "multi": lambda x, t, **options: F.multi_margin_loss(x, t, **options),
    "multi, squares and weights": lambda x, t, **options: F.multi_margin_loss(
        x, t, p=2, margin=0.5, weight=torch.linspace(0.5, 2, 5, dtype=x.dtype), **options
    ),
    "multilabel": lambda x, t, **options: F.multilabel_margin_loss(
        x, torch.stack([t, 4 - t, t * 0 - 1, t, t], -1), **options
    ),
}


@pytest.mark.native
@pytest.mark.parametrize("loss", MARGIN_LOSSES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_margin_losses_of_classes(loss, reduction, dtype):
    def f(x, target):
        return MARGIN_LOSSES[loss](x * 2, target, reduction=reduction)

    def run(f, x, target):
        x = x.clone().requires_grad_()
        try:
            result = f(x, target)
            (gradient,) = torch.autograd.grad(result, x, torch.ones_like(result))
        except RuntimeError as error:
            return str(error)
        return result.detach(), gradient.detach()

    compiled = cdynamo.optimize(f)
    before = cdynamo.counters()["graph_breaks"]
    for rows in (4, 6):
        x, target = torch.randn(rows, 5, dtype=dtype), torch.arange(rows) % 5
        torch.testing.assert_close(run(compiled, x, target), run(f, x, target))
    assert cdynamo.counters()["graph_breaks"] == before
    assert run(compiled, x, target + 3) == run(f, x, target + 3)
