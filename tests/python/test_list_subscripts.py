"""Lists as subscripts of tensors: of ints, and those that PyTorch takes for the tuple of their items, with a warning."""

from __future__ import annotations

import pytest
from outcomes import outcome

import cdynamo

torch = pytest.importorskip("torch")

LISTS = [
    [0], [2, 0, 0], [[0]], [[0, 1]], [[0], [1]], [[0], [1], [2]], [[[0]]], [[0], [1], [2], [0]], [0, slice(None)], [None, 0],
    [..., 0], [[0], 1], [1, [0, 1]], [(0, 1)], [[True, False, True]], [torch.tensor([0])], [torch.tensor(0)], [], [range(2)],
]  # fmt: skip


def read(x, key):
    return x[key]


def written(x, key):
    x[key] = 7
    return x


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.parametrize("f", [read, written])
def test_as_eager_takes_it(f, dtype):
    for key in LISTS:
        of_list = lambda x, key=key: f(x, key)  # noqa: E731
        x = torch.arange(60.0).reshape(3, 4, 5).to(dtype)
        assert outcome(cdynamo.optimize(of_list), x.clone()) == outcome(of_list, x.clone()), key


def test_the_warning():
    f = cdynamo.optimize(lambda x: x[[[0], [1]]] * 2)
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        f(torch.ones(3, 4))
