"""Custom operators with a derivative (torch.library) within graphs: one graph, and the derivative is computed as they say."""

from __future__ import annotations

import math

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch.library import custom_op  # noqa: E402

pytestmark = pytest.mark.native

forwards: list[str] = []  # the operators that were computed


@custom_op("cdynamo_training::groups", mutates_args=())
def groups(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Rows up to each end by the group's own matrix."""
    forwards.append("groups")
    out, start = x.new_zeros(x.shape[0], weight.shape[2]), 0
    for matrix, end in zip(weight, ends.tolist()):
        out[start:end] = x[start:end] @ matrix
        start = end
    return out


@custom_op("cdynamo_training::groups_backward", mutates_args=())
def groups_backward(
    x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor, grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    grads, start = (torch.zeros_like(x), torch.zeros_like(weight)), 0
    for i, end in enumerate(ends.tolist()):
        grads[0][start:end] = grad[start:end] @ weight[i].T
        grads[1][i] = x[start:end].T @ grad[start:end]
        start = end
    return grads


groups.register_fake(lambda x, weight, ends: x.new_empty(x.shape[0], weight.shape[2]))
groups_backward.register_fake(lambda x, weight, ends, grad: (torch.empty_like(x), torch.empty_like(weight)))
groups.register_autograd(
    lambda ctx, grad: (*groups_backward(*ctx.saved_tensors, ctx.ends, grad), None),
    setup_context=lambda ctx, inputs, output: (ctx.save_for_backward(*inputs[:2]), setattr(ctx, "ends", inputs[2])),
)


@custom_op("cdynamo_training::power", mutates_args=())
def power(x: torch.Tensor, base: float) -> torch.Tensor:
    forwards.append("power")
    return base**x


power.register_fake(lambda x, base: torch.empty_like(x))
power.register_autograd(  # reads the result and a number
    lambda ctx, grad: (grad * ctx.saved_tensors[0] * ctx.log, None),
    setup_context=lambda ctx, inputs, output: (ctx.save_for_backward(output), setattr(ctx, "log", math.log(inputs[1]))),
)


@custom_op("cdynamo_training::centred", mutates_args=())
def centred(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    forwards.append("centred")
    mean = x.mean(-1, keepdim=True)
    return (x - mean) ** 2, mean


centred.register_fake(lambda x: (torch.empty_like(x), x.new_empty(*x.shape[:-1], 1)))


def centred_backward(ctx, grad, grad_mean):
    x, mean = ctx.saved_tensors
    inner = 2 * (x - mean) * grad
    return inner - inner.mean(-1, keepdim=True) + grad_mean / x.shape[-1]


centred.register_autograd(
    centred_backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0], output[1])
)


@custom_op("cdynamo_training::wave", mutates_args=())
def wave(x: torch.Tensor) -> torch.Tensor:
    forwards.append("wave")
    return x.sin()


wave.register_fake(torch.empty_like)
wave.register_autograd(  # saves what is neither an operand nor a result
    lambda ctx, grad: grad * ctx.saved_tensors[0],
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0].cos()),
)

ENDS = torch.tensor([2, 2, 5])
PROGRAMS = {  # and how often the operator is computed in a step
    "an operator for the derivative": (lambda x, w: groups(x * 2, w, ENDS).tanh(), 1),
    "of what is transposed": (lambda x, w: groups(x.sin(), w.transpose(1, 2).exp(), ENDS), 1),
    "the result is read": (lambda x, w: power(x.sin(), 2.0) * x + w.sum(), 1),
    "several results": (lambda x, w: centred(x.exp())[0] * centred(x.exp())[1] + w.sum(), 2),
    "one of several results": (lambda x, w: centred(x.exp() + w.sum())[0] * 3, 1),
    "all of several results": (lambda x, w: (lambda y, mean: y * mean + w.sum())(*centred(x.exp())), 1),
    "what only the operator knows": (lambda x, w: wave(x * w.mean()) * x, 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_training(name):
    function, calls = PROGRAMS[name]
    compiled = cdynamo.optimize(function, fullgraph=True)
    for step in range(3):
        torch.manual_seed(step)
        x, w = torch.randn(5, 4), torch.randn(3, 4, 4)
        gradients = []
        for f in (function, compiled):
            leaves = x.clone().requires_grad_(), w.clone().requires_grad_()
            forwards.clear()
            f(*leaves).square().mean().backward()
            gradients.append([leaf.grad for leaf in leaves])
        assert len(forwards) == calls
        for got, expected in zip(gradients[1], gradients[0], strict=True):
            torch.testing.assert_close(got, expected)
            assert got.stride() == expected.stride()


def test_numbers_that_are_known_when_the_graph_runs():
    """What is recorded at capture does not hold a number of that call."""
    function = lambda x, base: power(x.sin(), base.item()) * x  # noqa: E731
    compiled = cdynamo.optimize(function)
    for base in (2.0, 3.0, 5.0):
        x, y = (torch.linspace(-1, 1, 6).requires_grad_() for _ in range(2))
        function(x, torch.tensor(base)).sum().backward()
        compiled(y, torch.tensor(base)).sum().backward()
        torch.testing.assert_close(y.grad, x.grad)


def test_derivatives_of_derivatives():
    function = lambda x: power(x.sin(), 3.0) * x  # noqa: E731
    compiled = cdynamo.optimize(function, fullgraph=True)
    results = []
    for f in (function, compiled):
        x = torch.linspace(-1, 1, 6).requires_grad_()
        (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        results.append((first, second))
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("backend", ["eager", lambda gm, inputs: gm.forward])
def test_other_backends(backend):
    for function, _ in PROGRAMS.values():
        x, w = torch.linspace(-1, 1, 20).reshape(5, 4), torch.linspace(0, 1, 48).reshape(3, 4, 4)
        gradients = []
        for f in (function, cdynamo.optimize(function, backend=backend)):
            leaves = x.clone().requires_grad_(), w.clone().requires_grad_()
            gradients.append(torch.autograd.grad(f(*leaves).sum(), leaves))
        torch.testing.assert_close(gradients[1], gradients[0])


def test_what_is_differentiated_under_autocast():
    function = lambda x, w: groups(x @ w[0], w, ENDS)  # noqa: E731
    gradients = []
    for f in (function, cdynamo.optimize(function)):
        x, w = torch.linspace(-1, 1, 20).reshape(5, 4), torch.linspace(0, 1, 48).reshape(3, 4, 4)
        leaves = x.requires_grad_(), w.requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = f(*leaves)
            gradients.append(torch.autograd.grad(result.float().sum(), leaves))
    torch.testing.assert_close(gradients[1], gradients[0], rtol=2e-2, atol=2e-2)
