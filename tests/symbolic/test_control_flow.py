"""torch.cond, scan, map and associative_scan: captured with their bodies, as eager runs them."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch._higher_order_ops.associative_scan import associative_scan  # noqa: E402
from torch._higher_order_ops.map import map as map_steps  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402

import cdynamo  # noqa: E402

X = torch.linspace(-1, 1.5, 12).reshape(4, 3)


def same(got, expected):
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected)
        assert got.stride() == expected.stride()
    elif isinstance(expected, dict):
        assert got.keys() == expected.keys() and all(same(got[key], expected[key]) for key in expected)
    elif isinstance(expected, (tuple, list)):
        assert type(got) is type(expected) and len(got) == len(expected) and all(map(same, got, expected))
    else:
        assert got == expected
    return True


def a_condition(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() + 1, (x,))


def several_results(x):
    def one(x, y):
        return {"a": x + y, "b": [x.sum(), y * 2]}

    def other(x, y):
        return {"a": x - y, "b": [y.sum(), x * 3]}

    return torch.cond((x > 0.5).any(), one, other, (x, x * 2))


def a_known_condition(x):
    return torch.cond(x.shape[0] > 2, lambda x: x + 1, lambda x: x, (x,))


def nested_conditions(x):
    def inner(x):
        return torch.cond(x.max() > 1, lambda x: x * 2, lambda x: x * 3, (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: x + 1, (x,))


def a_map(x):
    return map_steps(lambda row, scale: (row * scale).cumsum(0), x, torch.tensor(2.0))


def a_map_of_several(x):
    return map_steps(lambda pair, y: {"sum": pair[0] + pair[1], "y": [y * 2]}, (x, x + 1), torch.ones(3))


def a_scan(x):
    return scan(lambda carry, row: (carry + row, carry * row), torch.zeros(3), x)


def scans_of_other_forms(x):
    def step(carry, part):
        return {"total": carry["total"] + part[0]}, (carry["total"] * part[1],)

    carry = {"total": torch.zeros(4)}
    return scan(step, carry, (x, x + 1), dim=1), scan(step, carry, (x, x * 2), dim=1, reverse=True)


def an_associative_scan(x):
    return (
        associative_scan(lambda a, b: a * b, x, dim=0, combine_mode="generic"),
        associative_scan(lambda a, b: a + b, x, dim=1, reverse=True, combine_mode="generic"),
    )


@pytest.mark.parametrize(
    "program",
    [
        a_condition, several_results, a_known_condition, nested_conditions, a_map, a_map_of_several, a_scan, scans_of_other_forms,
        an_associative_scan,
    ],
    ids=lambda program: program.__name__,
)  # fmt: skip
def test_one_graph(program, counts):
    compiled = cdynamo.optimize(program, fullgraph=True)
    for x in (X, -X, X + 2, -X - 2):
        same(compiled(x), program(x))
    assert counts.graphs_compiled == 1


@pytest.mark.parametrize("program", [a_map, a_scan], ids=lambda program: program.__name__)
def test_gradients(program):
    gradients = []
    for run in (program, cdynamo.optimize(program, fullgraph=True)):
        x = X.clone().requires_grad_()
        result = run(x)
        result = result[1] if isinstance(result, tuple) else result
        (result * torch.arange(3.0)).sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(gradients[1], gradients[0])


def test_what_shows_that_one_way_is_taken_is_left_to_torch():
    def gradients(x):
        return torch.cond(x.sum() > 0, lambda x: x.log(), lambda x: x * 0, (x,)).sum()

    compiled = cdynamo.optimize(gradients)
    for sign in (1, -1):
        results = []
        for run in (gradients, compiled):
            x = (sign * (X.abs() + 0.1)).requires_grad_()
            run(x).backward()
            results.append(x.grad)
        torch.testing.assert_close(results[1], results[0])

    def random(x):
        return torch.cond(x.sum() > 0, lambda x: x + torch.rand(3), lambda x: x + torch.randn(3), (x,))

    with pytest.raises(cdynamo.GraphBreakError):
        cdynamo.optimize(random, fullgraph=True)(X)


# What is infinite, or none, in the way that eager does not take.
def log_or_nothing(x, w):
    return torch.cond(x.sum() > 0, lambda x: x.log(), lambda x: x * 0, (x,))


def closures(x, w):
    y = x * w

    def one(x):
        return y / x.sum(), (w / w.sum()).sqrt()

    def other(x):
        return y.sqrt() - x, w * 2

    a, b = torch.cond(x.max() > 1.2, one, other, (x,))
    return a * b + y


def nested(x, w):
    def inner(x):
        return torch.cond(x.min() > 0.5, lambda x: (x - 0.5).log(), lambda x: w.sqrt() * x, (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: (-x).log(), (x,))


def one_after_the_other(x, w):
    for _ in range(3):
        x = torch.cond(x.sum() > 0, lambda x: x * 0.5 - w, lambda x: x.exp(), (x,))
    return x


def one_that_is_cut_off(x, w):
    return torch.cond(x.sum() > 0, lambda x: x.detach() * w, lambda x: x * w.detach(), (x,))


def a_checkpoint(x, w):
    def one(x):
        return torch.utils.checkpoint.checkpoint(lambda x: (x * w).log(), x, use_reentrant=False)

    return torch.cond(x.sum() > 0, one, lambda x: x * 0, (x,))


CONDITIONS = [log_or_nothing, closures, nested, one_after_the_other, one_that_is_cut_off, a_checkpoint]


def result_and_gradients(run, x, w):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    result = run(x, w)
    (result * torch.arange(1.0, 4.0)).sum().backward()
    return result.detach(), x.grad, w.grad


def agree(got, expected):
    for a, b in zip(got, expected):
        assert (a is None) == (b is None) or not b.any()  # torch.cond gives zeros or none
        if a is not None and b is not None:
            torch.testing.assert_close(a, b, equal_nan=True)


@pytest.mark.native
@pytest.mark.parametrize("program", CONDITIONS, ids=lambda program: program.__name__)
def test_gradients_flow_through_the_way_that_is_taken(program, counts):
    compiled = cdynamo.optimize(program, fullgraph=True)
    w = torch.tensor([0.5, 2.0, 3.0])
    for x in (X.abs() + 0.6, -X.abs() - 0.1, X, X + 1, torch.zeros(4, 3)):
        agree(result_and_gradients(compiled, x, w), result_and_gradients(program, x, w))
    assert counts.graphs_compiled == 1


def test_gradients_of_conditions_agree_where_the_graph_breaks():
    for program in CONDITIONS:
        compiled = cdynamo.optimize(program)
        w = torch.tensor([0.5, 2.0, 3.0])
        for x in (X.abs() + 0.6, -X.abs() - 0.1):
            agree(result_and_gradients(compiled, x, w), result_and_gradients(program, x, w))
