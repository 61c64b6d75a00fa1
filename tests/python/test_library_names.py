"""Functions of torch that say something about tensors and the process, and those that are stated by others."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import cdynamo  # noqa: E402

X = torch.tensor([[-1.0, 0.5, 2.0], [0.25, -0.75, 4.0]])
OPERANDS = [
    torch.ones(shape, dtype=dtype)
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.float32)
    for shape in ((), (2,))
]


@pytest.mark.parametrize("default", [torch.float32, torch.float64])
def test_result_type(default):
    def kinds(a, b):
        a = a * 1
        return a, torch.result_type(a, b), torch.result_type(b, a), torch.result_type(a, 2), torch.result_type(1.5, a)

    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        for a, b in itertools.product(OPERANDS, OPERANDS):
            assert cdynamo.optimize(kinds, fullgraph=True)(a, b)[1:] == kinds(a, b)[1:], (a, b)
    finally:
        torch.set_default_dtype(before)


def test_type():
    def converted(x, y):
        return x.type(), y.type(x.type()), x.type("torch.LongTensor"), (x > 0).type(), x.type(torch.int32).type()

    got, expected = cdynamo.optimize(converted, fullgraph=True)(X, X.double()), converted(X, X.double())
    for a, b in zip(got, expected):
        torch.testing.assert_close(a, b) if isinstance(b, torch.Tensor) else None
        assert type(a) is type(b) and (isinstance(b, torch.Tensor) or a == b)


def test_threads_of_torch():
    count = cdynamo.optimize(lambda x: x * torch.get_num_threads(), fullgraph=True)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 1, 3):
            torch.set_num_threads(threads)
            assert torch.equal(count(X), X * threads)
    finally:
        torch.set_num_threads(before)


STATISTICS = {
    "cov": lambda x: (x.cov(), torch.cov(x[0]), torch.cov(x, correction=0), torch.cov(x.double().t())),
    "corrcoef": lambda x: (torch.corrcoef(x), x[1].corrcoef(), torch.corrcoef(x.t())),
    "combinations": lambda x: (
        torch.combinations(x[0]),
        torch.combinations(x[1], with_replacement=True),
        torch.combinations(x[0, :1]),
    ),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics(name):
    function = STATISTICS[name]
    fast = cdynamo.optimize(function, fullgraph=True)
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    got, expected = fast(x), function(y)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride()
    for results in (got, expected):
        sum((r * torch.arange(1.0, r.numel() + 1).reshape(r.shape)).sum() for r in results).backward()
    torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.filterwarnings("ignore:cov")
def test_what_warns_or_fails_is_left_to_eager():
    for function in (
        lambda x: torch.cov(x[:, :1]),
        lambda x: torch.cov(x, fweights=torch.tensor([1, 2, 1])),
        lambda x: torch.combinations(x[0], 3),
    ):
        torch.testing.assert_close(cdynamo.optimize(function)(X), function(X), equal_nan=True)
    for function in (lambda x: torch.combinations(x), lambda x: torch.cov(x[None])):
        with pytest.raises(RuntimeError):
            cdynamo.optimize(function)(X)


def test_state_dict_in_a_graph():
    """A moving average of a model, as it is written everywhere."""

    def average(model, mean, decay=0.5):
        with torch.no_grad():
            state = model.state_dict()
            for name, value in mean.state_dict().items():
                if value.is_floating_point():
                    value.mul_(decay).add_(state[name], alpha=1 - decay)
        return state

    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)) for _ in range(4)]
    for pair in (models[:2], models[2:]):
        pair[0].load_state_dict(models[0].state_dict())
        pair[1].load_state_dict(models[1].state_dict())
    fast = cdynamo.optimize(average, fullgraph=True)
    for _ in range(3):
        got, expected = fast(models[0], models[1]), average(models[2], models[3])
        assert list(got) == list(expected) and got._metadata == expected._metadata
        for name in expected:
            torch.testing.assert_close(models[1].state_dict()[name], models[3].state_dict()[name])
            assert got[name].data_ptr() == models[0].state_dict()[name].data_ptr()
