"""Bools and lists of bools as subscripts, whose places are known when the graph is captured, read and written."""

from __future__ import annotations

import numpy as np
import pytest
from outcomes import needs_torch, outcome, torch

import cdynamo

SUBSCRIPTS = {
    "true": lambda a: a[True],
    "false": lambda a: a[False],
    "beside a slice": lambda a: a[1:, True],
    "beside an index": lambda a: a[0, True],
    "beside an ellipsis": lambda a: a[..., True],
    "beside None": lambda a: a[None, True, ..., False],
    "beside a list": lambda a: a[True, [0, 1]],
    "of a dim": lambda a: a[[True, False, True]],
    "of a later dim": lambda a: a[:, [True, False, False, True]],
    "of each dim": lambda a: a[[True, False, True], [True, False, False, True]],
    "after an ellipsis": lambda a: a[..., [True, False, False, True]],
    "of none": lambda a: a[[False, False, False]],
    "of all": lambda a: a[:, [True] * 4],
    "of other length": lambda a: a[[True, False]],
    "of another length behind": lambda a: a[:, [True, False, True]],
    "beside integers": lambda a: a[[True, True, False], [1, 2]],
    "whose numbers do not fit": lambda a: a[[True, True, True], [1, 2]],
    "nested": lambda a: a[[[True, False, True, False]] * 3,],
    "nested, and a dim behind": lambda a: a[None][[[True, False, True]],],
    "of what is too deep": lambda a: a[[[[True]]],],
}


def write(subscript):
    def f(a, v):
        subscript(Written(a, v))
        return a

    return f


class Written:
    """a[key] writes."""

    def __init__(self, array, value):
        self.array, self.value = array, value

    def __getitem__(self, key):
        self.array[key] = self.value
        return self


@pytest.mark.parametrize("name", SUBSCRIPTS)
@pytest.mark.parametrize("make", [np.array, pytest.param(lambda a: torch.from_numpy(np.array(a)), marks=needs_torch)])
class TestSubscript:
    def test_read(self, make, name):
        fast = cdynamo.optimize(SUBSCRIPTS[name])
        for dtype in np.float32, np.int64:
            a = np.arange(12).reshape(3, 4).astype(dtype)
            for array in make(a), make(a.T.copy()).T:
                assert outcome(fast, array) == outcome(SUBSCRIPTS[name], array)

    def test_write(self, make, name):
        plain, a = write(SUBSCRIPTS[name]), np.arange(12.0).reshape(3, 4)
        fast = cdynamo.optimize(plain)
        for value in 7, 2.5, True:
            assert outcome(fast, make(a), value) == outcome(plain, make(a), value)
        for shape in (), (1,), (2,), (2, 1), (1, 1, 1), (3,):
            value = np.ones(shape) * 5
            assert outcome(fast, make(a), make(value)) == outcome(plain, make(a), make(value))


@pytest.mark.native
@pytest.mark.parametrize(
    "name", [name for name in SUBSCRIPTS if "length" not in name and "fit" not in name and "deep" not in name]
)
def test_no_break(name):
    cdynamo.optimize(SUBSCRIPTS[name], fullgraph=True)(np.arange(12.0).reshape(3, 4))


@needs_torch
def test_gradients():
    def f(x):
        return (x[True] * x[[True, False, True]].sum(0) * x[:, [True, False, False, True]].sum()).sum()

    x, y = (torch.arange(12.0).reshape(3, 4).requires_grad_() for _ in range(2))
    f(x).backward()
    cdynamo.optimize(f)(y).backward()
    torch.testing.assert_close(y.grad, x.grad)


@needs_torch
def test_a_read_is_a_copy():
    def f(x):
        y = x[True]
        y += 1
        return x, y

    assert outcome(cdynamo.optimize(f), torch.ones(2)) == outcome(f, torch.ones(2))
