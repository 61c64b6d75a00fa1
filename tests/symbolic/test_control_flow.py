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

    with pytest.raises(cdynamo.GraphBreakError):
        cdynamo.optimize(gradients, fullgraph=True)(X.clone().requires_grad_())

    def random(x):
        return torch.cond(x.sum() > 0, lambda x: x + torch.rand(3), lambda x: x + torch.randn(3), (x,))

    with pytest.raises(cdynamo.GraphBreakError):
        cdynamo.optimize(random, fullgraph=True)(X)
