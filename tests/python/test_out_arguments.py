"""Results that are written to a given tensor: out=."""

import pytest

import cdynamo

torch = pytest.importorskip("torch")


def like_eager(f, *args, breaks=0):
    compiled = cdynamo.optimize(f)
    before = cdynamo.counters()["graph_breaks"]
    for _ in range(2):
        mine, theirs = [[a.clone() for a in args] for _ in range(2)]
        got, expected = compiled(*mine), f(*theirs)
        for a, b in zip(
            (*(got if isinstance(got, tuple) else [got]), *mine),
            (*(expected if isinstance(expected, tuple) else [expected]), *theirs),
        ):
            assert a.stride() == b.stride() and a.dtype == b.dtype
            torch.testing.assert_close(a, b)
        assert type(got) is type(expected)
    assert (cdynamo.counters()["graph_breaks"] - before > 0) == bool(breaks)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: torch.add(x, 1, out=y) * 2,
        lambda x, y: torch.add(x, y, out=y) * 2,
        lambda x, y: torch.mm(x, x, out=y) - 1,
        lambda x, y: torch.exp(x, out=y.t()) + y,
        lambda x, y: torch.cat([x, x], out=torch.empty(6, 3)) + 1,
        lambda x, y: torch.max(x, 1, out=(y[:, 0], torch.empty(3, dtype=torch.int64))),
        lambda x, y: torch.sum(x, 0, out=y[1]) * y,
    ],
)
def test_the_tensor_is_written(f):
    like_eager(f, torch.randn(3, 3), torch.randn(3, 3))


def test_it_is_the_result():
    def f(x, y):
        return torch.mul(x, 2, out=y)

    x, y = torch.randn(3), torch.empty(3)
    assert cdynamo.optimize(f, fullgraph=True)(x, y) is y
    assert torch.equal(y, x * 2)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: torch.add(x, 1, out=y.double()) * 2,
        lambda x, y: torch.mm(x, y, out=y) if False else torch.add(x, 1, out=torch.empty(0)),
        lambda x, y: torch.add(y, 1, out=y.t().clone().double()),
        lambda x, y: torch.cumsum(y, 0, out=y),
        lambda x, y: torch.add(y[:2], 1, out=y[1:].clone()),
    ],
)
def test_other_dtypes_sizes_and_memory_that_is_read_are_pytorch_s(f):
    x, y = torch.randn(3, 3), torch.randn(3, 3)
    compiled = cdynamo.optimize(f)
    for _ in range(2):
        torch.testing.assert_close(compiled(x, y.clone()), f(x, y.clone()))


def test_gradients_are_refused_as_in_eager():
    def f(x, y):
        return torch.mul(x, 2, out=y)

    x = torch.randn(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        cdynamo.optimize(f)(x, torch.empty(3))


@pytest.mark.parametrize(
    "f",
    [
        lambda o: torch.randn(2, 3, out=o),
        lambda o: torch.rand((2, 3), out=o) + 1,
        lambda o: torch.normal(0.0, 1.0, (2, 3), out=o),
        lambda o: torch.randint(0, 9, (2, 3), out=o.long().t().contiguous().t()) + o,
    ],
)
@pytest.mark.parametrize(
    "make", [lambda: torch.zeros(2, 3), lambda: torch.zeros(3, 2).t(), lambda: torch.zeros(4, 6)[::2, ::2]]
)
def test_random_numbers_are_drawn_in_the_order_of_memory(f, make):
    drawn = []
    for function in (f, cdynamo.optimize(f)):
        torch.manual_seed(0)
        given = make()
        drawn.append((function(given), given))
    for got, expected in zip(*drawn, strict=True):
        assert got.stride() == expected.stride() and torch.equal(got, expected)
