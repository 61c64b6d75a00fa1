"""Saved tensors are let go while a compiled backward runs, unless the graph is kept."""

import pytest

import cdynamo

torch = pytest.importorskip("torch")


def chain(x, weights):
    for w in weights:
        x = torch.tanh(x @ w)
    return x.square().sum()


def make():
    torch.manual_seed(0)
    return torch.randn(8, 16), [torch.randn(16, 16, requires_grad=True) for _ in range(3)]


def test_graph_that_is_kept_runs_again():
    x, weights = make()
    loss = cdynamo.optimize(chain, fullgraph=True)(x, weights)
    first = torch.autograd.grad(loss, weights, retain_graph=True)
    second = torch.autograd.grad(loss, weights)
    expected = torch.autograd.grad(chain(x, weights), weights)
    for a, b, c in zip(first, second, expected, strict=True):
        torch.testing.assert_close(a, c)
        torch.testing.assert_close(b, c, rtol=1e-5, atol=1e-6)
        assert a.stride() == c.stride()


def test_second_backward_of_a_graph_that_is_not_kept():
    x, weights = make()
    loss = cdynamo.optimize(chain)(x, weights)
    loss.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_what_the_user_holds_is_not_touched():
    x, weights = make()
    kept = []

    def function(x, weights):
        h = torch.tanh(x @ weights[0])
        return h, torch.sin(h @ weights[1]).sum()

    h, loss = cdynamo.optimize(function)(x, weights)
    kept.append(h.detach().clone())
    loss.backward()
    assert torch.equal(h, kept[0])


def test_gradients_without_elements():
    x = torch.randn(0, 4, requires_grad=True)
    w = torch.randn(4, 3, requires_grad=True)
    out = cdynamo.optimize(torch.mm, fullgraph=True)(x, w)
    for got, expected in zip(
        torch.autograd.grad(out.sum(), (x, w)), (torch.zeros(0, 4), torch.zeros(4, 3)), strict=True
    ):
        assert torch.equal(got, expected)
