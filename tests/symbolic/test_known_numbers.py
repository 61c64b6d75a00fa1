"""Integers that the graph computes from constants alone are Python's: dims, sizes, bounds, in one graph."""

import numpy as np
import pytest

import cdynamo

torch = pytest.importorskip("torch")
X = torch.arange(24.0).reshape(2, 3, 4)


def dims_of_a_range(x):
    return x.sum(dim=torch.arange(1, x.dim()).tolist())


def dim_of_a_tensor(x):
    return x.sum(int(torch.tensor(1)))


def pieces(x):
    ends = torch.cumsum(torch.tensor([1, 2]), 0).tolist()
    return torch.cat([x[:, : ends[0]], x[:, ends[1] - 1 :]], 1)


def branch_on_a_mask(x):
    return x + 1 if torch.tensor([True, False]).any() else x - 1


def size_of_a_product(x):
    return x.reshape(torch.tensor(x.shape).prod().item())


def element_of_a_choice(x):
    return x.sum(torch.arange(3)[torch.tensor([2])].item())


def numpy_sizes(x):
    rows, columns = np.array([4, 6]) // 2
    return x.reshape(rows, columns * 2, 2)


def reversed_numpy_shape(x):
    return x.reshape(tuple(np.asarray(x.shape)[::-1]))


def pieces_of_a_numpy_list(x):
    return x.split(np.array([1, 2]).tolist(), 1)[1]


PROGRAMS = [
    dims_of_a_range,
    dim_of_a_tensor,
    pieces,
    branch_on_a_mask,
    size_of_a_product,
    element_of_a_choice,
    numpy_sizes,
    reversed_numpy_shape,
    pieces_of_a_numpy_list,
]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_one_graph(f):
    compiled = cdynamo.optimize(f, fullgraph=True)
    for x in (X, X + 1):
        got, expected = compiled(x), f(x)
        assert torch.equal(got, expected) and got.stride() == expected.stride()


def written_element(x):
    numbers = torch.arange(4)
    numbers[0] = 7
    return x * int(numbers[0])


def written_before(x):
    numbers = torch.zeros(3, dtype=torch.int64)
    numbers.add_(2)
    return x + 1 if int(numbers[0]) == 2 else x - 1


def written_through_a_view(x):
    numbers = torch.tensor([1, 2, 3])
    first = numbers[:1]
    first.fill_(5)
    return x * numbers.tolist()[0]


def drawn(x):
    return x[: int(torch.randperm(2)[0]) + 1]


@pytest.mark.parametrize(
    "f", [written_element, written_before, written_through_a_view, drawn], ids=lambda f: f.__name__
)
def test_what_is_written_or_drawn_is_not_known(f):
    compiled = cdynamo.optimize(f)
    for seed in range(4):
        torch.manual_seed(seed)
        expected = f(X)
        torch.manual_seed(seed)
        assert torch.equal(compiled(X), expected)


def test_a_global_tensor_may_change():
    global COUNT
    COUNT = torch.tensor(1)

    def f(x):
        return x.narrow(0, 0, int(COUNT))

    compiled = cdynamo.optimize(f)
    assert compiled(X).shape[0] == 1
    COUNT.add_(1)
    assert compiled(X).shape[0] == 2


@pytest.mark.native
def test_asserted_numbers():
    def f(x):
        torch._assert_async(x.sum() > 0, "nothing there")
        return x * 2

    compiled = cdynamo.optimize(f, fullgraph=True)
    assert torch.equal(compiled(X), X * 2)
    with pytest.raises(RuntimeError, match="nothing there"):
        cdynamo.optimize(f)(-X)


def test_modules_of_fx():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x, scale=2.0):
            return torch.relu(self.linear(x)) * scale

    traced = torch.fx.symbolic_trace(Block())
    for module in (traced, torch.nn.Sequential(traced, torch.nn.Linear(4, 4))):
        cdynamo.reset()
        compiled = cdynamo.optimize(module, fullgraph=True)
        torch.testing.assert_close(compiled(X), module(X))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        cdynamo.optimize(traced)(torch.ones(3, 5))
