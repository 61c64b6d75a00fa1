"""What a program says to torch.compile from within captured code: it is obeyed, or means nothing there."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

import cdynamo  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    cdynamo.reset()


x = torch.linspace(0, 1, 4)


def check(f, *inputs, fullgraph=True):
    expected = f(*inputs)
    fast = cdynamo.optimize(f, fullgraph=fullgraph)
    for _ in range(2):
        torch.testing.assert_close(fast(*inputs), expected)


@torch._dynamo.nonstrict_trace
def nonstrict(t):
    return t.sin() * 2


@torch._dynamo.dont_skip_tracing
def traced(t):
    return t.sin()


@torch._dynamo.error_on_graph_break(True)
def refuses_breaks(t):
    return t.sin()


def _in_contexts(t):
    with torch._dynamo.dont_skip_tracing(), torch._dynamo.error_on_graph_break(True):
        return t.sin()


CAPTURED = {
    "nonstrict_trace": lambda t: nonstrict(t) + 1,
    "compile": lambda t: torch.compile(torch_function, backend="eager")(t) + 1,
    "compiled_lambda": lambda t: torch.compile(lambda u: u.sin() + t)(t),
    "dont_skip_tracing": lambda t: traced(t) + 1,
    "error_on_graph_break": lambda t: refuses_breaks(t) + 1,
    "contexts": _in_contexts,
}


def torch_function(t):
    return t.cos()


@pytest.mark.parametrize("name", CAPTURED)
def test_captured(name):
    check(CAPTURED[name], x)


@pytest.mark.parametrize(
    "mark, attribute",
    [
        (torch._dynamo.mark_dynamic, "_dynamo_dynamic_indices"),
        (torch._dynamo.maybe_mark_dynamic, "_dynamo_weak_dynamic_indices"),
        (torch._dynamo.mark_static, "_dynamo_static_indices"),
    ],
)
def test_marks(mark, attribute):
    def f(t):
        mark(t, 0)
        u = t * 2
        mark(u, 0)
        return u.sin()

    t = torch.ones(4)
    fast = cdynamo.optimize(f, fullgraph=True)
    for _ in range(2):
        assert torch.equal(fast(t), (t * 2).sin())
    assert getattr(t, attribute) == {0}


def test_breaks_that_are_asked_for():
    def f(t):
        t = t.sin()
        torch._dynamo.graph_break("here")
        return t.cos()

    check(f, x, fullgraph=False)
    with pytest.raises(cdynamo.GraphBreakError, match="CD0002"):
        cdynamo.optimize(f, fullgraph=True)(x)


def test_a_break_is_an_error_where_the_program_says_so():
    def f(t):
        with torch._dynamo.error_on_graph_break(True):
            return t.sin()

    check(f, x, fullgraph=False)


@pytest.mark.parametrize("stance", ["default", "force_eager"])
def test_stances_are_obeyed(stance):
    seen = []

    def inner(t):
        seen.append(torch.compiler.is_compiling())
        return t.sin()

    def f(t):
        with torch.compiler.set_stance(stance):
            return inner(t)

    torch.testing.assert_close(cdynamo.optimize(f)(x), x.sin())
    if stance == "force_eager":
        assert seen == [False]
