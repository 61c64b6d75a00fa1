"""Writes to where indices say, of sizes that change from call to call and have a symbol for each tensor."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")

FIRST, TWO = torch.tensor([0]), torch.tensor([2, 0])
WRITES = {
    "index_add, first dim": lambda y, x: y.index_add_(0, FIRST, x[:1]),
    "index_add, last dim": lambda y, x: y.index_add_(1, TWO, x[:, :2]),
    "index_add of a new tensor": lambda y, x: y.index_add(0, TWO, x[1:]),
    "index_copy": lambda y, x: y.index_copy_(0, TWO, x[:2]),
    "index_put": lambda y, x: y.index_put_((TWO,), x[:2]),
    "index_put, added": lambda y, x: y.index_put_((TWO,), x[:2], accumulate=True),
    "rows": lambda y, x: y.__setitem__(TWO, x[:2]),
    "columns": lambda y, x: y.__setitem__((slice(None), TWO), x[:, :2]),
    "a mask": lambda y, x: y.__setitem__(y[:, 0] > 1, x[0]),
    "a mask of all": lambda y, x: y.__setitem__(x > 2, 7),
    "scatter": lambda y, x: y.scatter_(0, x.long() % 3, x),
    "scatter_add": lambda y, x: y.scatter_add_(0, x.long() % 3, x),
    "select_scatter": lambda y, x: torch.select_scatter(y, x[0], 0, 1),
    "slice_scatter": lambda y, x: torch.slice_scatter(y, x[:2], 0, 0, 2),
    "masked_scatter": lambda y, x: y.masked_scatter(y > 1, x),
    "copy": lambda y, x: y.copy_(x),
}


@pytest.mark.parametrize("name", WRITES)
def test_sizes_that_change(name):
    def f(y, x):
        result = WRITES[name](y, x)
        return y if result is None else result

    compiled = cdynamo.optimize(f)
    for columns in (3, 4, 5):
        tensors = [torch.arange(3.0 * columns).reshape(columns, 3).T, torch.ones(columns, 3).T * 3]
        ours = [tensor.clone() for tensor in tensors]
        assert torch.equal(compiled(*ours), f(*tensors)) and torch.equal(ours[0], tensors[0])
