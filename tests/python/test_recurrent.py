"""Recurrent cells and layers: one graph, eager's values and gradients."""

import pytest

import cdynamo

torch = pytest.importorskip("torch")
nn = torch.nn


@pytest.fixture(autouse=True)
def grad_mode():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


def tensors(result):
    return [result] if isinstance(result, torch.Tensor) else [t for part in result for t in tensors(part)]


def check(module, *inputs):
    parameters = list(module.parameters())
    before = cdynamo.counters()
    compiled = cdynamo.optimize(module)
    got, expected = tensors(compiled(*inputs)), tensors(module(*inputs))
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride()
    got, expected = (torch.autograd.grad(sum(t.square().sum() for t in out), parameters) for out in (got, expected))
    for a, b in zip(got, expected):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    after = cdynamo.counters()
    return after["graphs_compiled"] - before["graphs_compiled"], after["graph_breaks"] - before["graph_breaks"]


@pytest.mark.parametrize("cell", [nn.GRUCell, nn.LSTMCell, nn.RNNCell])
@pytest.mark.parametrize("bias", [True, False])
def test_cells(cell, bias):
    assert check(cell(5, 7, bias=bias), torch.randn(3, 5)) == (1, 0)


@pytest.mark.parametrize("layer", [nn.GRU, nn.LSTM, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}])
def test_layers(layer, options):
    assert check(layer(5, 7, **options), torch.randn(4, 3, 5)) == (1, 0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}])
def test_projections(bias, options):
    module = nn.LSTM(5, 7, proj_size=2, bias=bias, **options)
    assert check(module, torch.randn(4, 3, 5)) == (1, 0)
    states = torch.randn(module.num_layers * (1 + module.bidirectional), 3, 9).split([2, 7], -1)
    x = torch.randn(3, 4, 5) if module.batch_first else torch.randn(4, 3, 5)
    assert check(module, x, states)[1] == 0


def test_a_given_state_and_dropout_with_eager_s_numbers():
    module = nn.GRU(5, 7, num_layers=2, dropout=0.5)
    x, h = torch.randn(4, 3, 5), torch.randn(2, 3, 7)
    torch.manual_seed(1)
    expected = module(x, h)[0]
    torch.manual_seed(1)
    torch.testing.assert_close(cdynamo.optimize(module)(x, h)[0], expected)


def test_long_sequences_are_eager_s():
    module = nn.GRU(2, 3)
    x = torch.randn(1000, 1, 2)
    torch.testing.assert_close(cdynamo.optimize(module)(x)[0], module(x)[0])
