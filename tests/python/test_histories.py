"""Results of one compiled function whose gradients do not meet: the engine goes only where eager's would go."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")


def two_losses(f):
    """What the backwards of two results leave, and what they called, with eager's graphs behind the inputs."""
    log = []
    x, y = torch.linspace(0, 1, 3).requires_grad_(), torch.linspace(1, 2, 3).requires_grad_()
    for name, leaf in (("x", x), ("y", y)):
        leaf.register_hook(lambda gradient, name=name: log.append((name, gradient is None)))
    a, b = f(x.exp(), y.exp())
    a.sum().backward()
    log.append("between")
    b.sum().backward()
    return log, x.grad, y.grad


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x.sin(), y.cos()),
        lambda x, y: (x.sin() * y.detach(), y.cos() * x.detach()),
        lambda x, y: (x + 1, y.exp() * y),
        lambda x, y: (x.sin(), (y.unsqueeze(0) * x.detach().unsqueeze(1)).softmax(-1)),
    ],
)
def test_what_is_behind_the_other_loss_is_left_alone(function):
    (log, *gradients), (plain_log, *plain) = two_losses(cdynamo.optimize(function)), two_losses(function)
    assert log == plain_log
    for got, expected in zip(gradients, plain, strict=True):
        torch.testing.assert_close(got, expected)


def test_an_operator_without_a_derivative_behind_the_other_loss():
    def function(x, y):
        return x * 2, (y * 3).sum()

    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    _, loss = cdynamo.optimize(function)((x + 1) // 2, y)
    loss.backward()
    assert y.grad.tolist() == [3, 3, 3]


def test_losses_that_meet_in_a_parameter():
    """`x` has a history, `y` none: no backward of the second loss goes to what is behind `x`."""

    def function(x, y, w):
        return x * w, y * w

    for f in (function, cdynamo.optimize(function)):
        x, y, w = (torch.ones(3, requires_grad=True) for _ in range(3))
        _, loss = f((x + 1) // 2, y, w)
        loss.sum().backward()
        assert (y.grad.tolist(), w.grad.tolist()) == ([1, 1, 1], [1, 1, 1])


def test_projections_of_one_input_share_a_node():
    def function(x, q, k):
        return x @ q, x @ k

    x = torch.rand(2, 3, requires_grad=True)
    q, k = cdynamo.optimize(function)(x * 1, torch.rand(3, 4, requires_grad=True), torch.rand(3, 4))
    assert q.grad_fn is k.grad_fn


def test_higher_derivatives_of_each():
    def function(x, y):
        return x**3 + x.detach(), (y.exp() * x.detach()).tanh()

    def second(f):
        x, y = torch.linspace(0, 1, 3).requires_grad_(), torch.linspace(1, 2, 3).requires_grad_()
        a, b = f(x, y)
        (first_x,) = torch.autograd.grad(a.sum(), x, create_graph=True)
        (first_y,) = torch.autograd.grad(b.sum(), y, create_graph=True)
        return torch.autograd.grad(first_x.sum(), x) + torch.autograd.grad(first_y.sum(), y)

    for got, expected in zip(second(cdynamo.optimize(function)), second(function), strict=True):
        torch.testing.assert_close(got, expected)


def test_a_write_to_what_only_the_other_saves():
    def function(x, y, w):
        return x * w, y.exp()

    w, y = torch.ones(3), torch.ones(3, requires_grad=True)
    x = torch.ones(3, requires_grad=True)
    a, b = cdynamo.optimize(function)(x, y, w)
    w.add_(1)
    b.sum().backward()
    torch.testing.assert_close(y.grad, y.detach().exp())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        a.sum().backward()


def test_many_apart():
    """More than are kept apart: they share nodes, and every gradient comes."""

    def function(tensors):
        return [tensor.sin() * i for i, tensor in enumerate(tensors)]

    tensors = [torch.full((2,), float(i), requires_grad=True) for i in range(40)]
    results = cdynamo.optimize(function)(tensors)
    for i in reversed(range(40)):
        results[i].sum().backward()
    for i, tensor in enumerate(tensors):
        torch.testing.assert_close(tensor.grad, tensor.detach().cos() * i)


def test_all_at_once():
    def function(x, y):
        return x.sin() * 2, y.cos() * 3

    x, y = torch.linspace(0, 1, 3).requires_grad_(), torch.linspace(1, 2, 3).requires_grad_()
    a, b = cdynamo.optimize(function)(x, y)
    (a.sum() * b.sum()).backward()
    compiled = x.grad.clone(), y.grad.clone()
    x.grad = y.grad = None
    a, b = function(x, y)
    (a.sum() * b.sum()).backward()
    torch.testing.assert_close(compiled, (x.grad, y.grad))
