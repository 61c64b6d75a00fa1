"""Tensors through captured Python: branches, breaks in mid-graph, dynamic sizes, modules."""

import pytest

torch = pytest.importorskip("torch")

from saying import shout  # noqa: E402
from test_capture_control import capture  # noqa: E402


def test_arithmetic_is_one_graph():
    def f(x, y):
        z = x * 2 + y
        return torch.relu(z).sum()

    found = capture(f, torch.ones(3, 4), torch.ones(4))
    assert found["end"] == "return"
    assert found["inputs"] == ["x", "y"]
    assert found["results"] == ["output 0"]
    assert found["num_nodes"] >= 4


def test_branch_on_a_tensor_breaks_at_the_jump_where_its_ways_give_other_sizes():
    def f(x):
        y = x + 1
        if y.sum() > 0:
            return y * 2
        return y[:1]

    found = capture(f, torch.ones(3))
    assert found["end"] == "break"
    assert found["break_at"].startswith(("POP_JUMP_IF", "TO_BOOL"))
    assert found["breaks"][0]["id"] == "CD0001"
    assert found["stack_depth"] == 1
    assert found["locals"] == ["y"]
    assert set(found["results"]) == {"output 0", "output 1"}


def test_branch_on_a_shape_is_followed():
    def f(x):
        if x.shape[0] > 2:
            return x + 1
        return x

    assert capture(f, torch.ones(3))["num_nodes"] == 1
    assert capture(f, torch.ones(2))["num_nodes"] == 0


def test_break_between_two_graphs():
    def f(x):
        y = torch.sin(x)
        shout("here")
        return torch.cos(y)

    found = capture(f, torch.ones(3))
    assert found["end"] == "break"
    assert found["num_nodes"] == 1
    assert found["locals"] == ["y"]


def test_module_call_is_inlined():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))

    def f(x):
        return model(x)

    with torch.no_grad():
        found = capture(f, torch.ones(3, 4))
    assert found["end"] == "return", found
    assert len(found["inputs"]) == 5


def test_a_list_of_tensors_is_built():
    def f(x):
        parts = [x + i for i in range(3)]
        return {"parts": parts, "last": parts[-1]}

    found = capture(f, torch.ones(2))
    assert found["end"] == "return"
    assert found["results"][0] == "#1={'parts': #2=[output 0, output 1, output 2], 'last': output 2}"


def test_one_object_under_two_names_is_guarded():
    def f(x, y):
        return x + y

    x = torch.ones(2)
    found = capture(f, x, x)
    assert any("same object" in guard for guard in found["guards"])


def test_unsupported_shapes_break_instead_of_raising():
    def f(x, y):
        z = x + 1
        return z @ y

    found = capture(f, torch.ones(2, 3), torch.ones(2, 3))
    assert found["end"] == "break"
    assert found["num_nodes"] == 1
