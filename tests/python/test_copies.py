"""copy.copy and copy.deepcopy of tensors, arrays and what holds them, against eager: contents, memory that is shared, strides."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cdynamo  # noqa: E402


@dataclasses.dataclass
class State:
    weight: object
    steps: list = dataclasses.field(default_factory=list)


def of_tensor(x):
    deep, shallow = copy.deepcopy(x), copy.copy(x)
    deep.add_(1)
    shallow.mul_(2)
    return x, deep, shallow, deep.stride(), shallow.stride()


def of_result(x):
    y = x * 2
    kept, seen = copy.deepcopy({"y": [y, y], "n": 1}), copy.copy([y])
    y.add_(1)
    return kept, seen, kept["y"][0] is kept["y"][1], seen[0] is y


def of_transposed(x):
    return copy.deepcopy(x.t().contiguous().t()), copy.deepcopy((x.T, 3))


def of_object(x):
    state = State(x, [x * 2])
    saved = copy.deepcopy(state)
    state.weight.zero_()
    return saved, state, dataclasses.asdict(saved), dataclasses.replace(saved, steps=[])


def same(got, expected):
    assert type(got) is type(expected)
    if torch.is_tensor(expected):
        torch.testing.assert_close(got, expected)
        assert got.stride() == expected.stride()
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(got, expected)
        assert got.strides == expected.strides
    elif isinstance(expected, (list, tuple)):
        for one, other in zip(got, expected, strict=True):
            same(one, other)
    elif isinstance(expected, dict):
        same(list(got.items()), list(expected.items()))
    elif dataclasses.is_dataclass(expected):
        same(vars(got), vars(expected))
    else:
        assert got == expected


@pytest.mark.parametrize("fn", [of_tensor, of_result, of_transposed, of_object])
def test_of_tensors(fn):
    compiled = cdynamo.optimize(fn, fullgraph=True)
    for rows in (2, 2, 3):
        x, y = (torch.arange(3.0 * rows).reshape(rows, 3) for _ in range(2))
        same(compiled(x), fn(y))
        same(x, y)


def test_of_arrays():
    def fn(a):
        deep, shallow = copy.deepcopy([a, a.T]), copy.copy(a)
        a += 1
        return deep, shallow, a

    compiled = cdynamo.optimize(fn, fullgraph=True)
    for _ in range(2):
        same(compiled(np.ones((2, 3))), fn(np.ones((2, 3))))


def shares(pair):
    one, other = copy.deepcopy(pair)
    one.add_(1)
    return one, other


def of_parts(x):
    copied = copy.deepcopy([x[0], x[1], x])
    copied[0].zero_()
    return copied


def of_strided(x):
    copied = copy.deepcopy(x[:, ::2])
    return copied, copied.stride()


def of_leaf(x):
    w = x.clone().requires_grad_()
    copied = copy.deepcopy(w)
    return copied, copied.requires_grad, copied.is_leaf


@pytest.mark.parametrize("fn", [of_parts, of_strided, of_leaf])
def test_what_eager_copies_in_another_way_is_left_to_it(fn):
    compiled = cdynamo.optimize(fn)
    for _ in range(2):
        x = torch.arange(8.0).reshape(2, 4)
        same(compiled(x), fn(x.clone()))


def test_tensors_that_share_memory_share_the_copy():
    compiled = cdynamo.optimize(shares)
    for overlap in (False, True, False):
        base = torch.zeros(4)
        pair = [base[:2], base[1:3] if overlap else torch.zeros(2)]
        same(list(compiled(pair)), list(shares(pair)))


def test_a_parameter_becomes_another_leaf():
    w = torch.nn.Parameter(torch.ones(2))
    compiled = cdynamo.optimize(lambda w: copy.deepcopy(w))
    assert isinstance(compiled(w), torch.nn.Parameter) and compiled(w) is not w
