"""`class Point(typing.NamedTuple)` and contextvars.ContextVar in captured code: tuples leave, variables do not."""

from __future__ import annotations

import contextvars
import typing
from typing import NamedTuple

import pytest

import cdynamo


def leaves(n):
    class Point(NamedTuple):
        """A point."""

        x: int
        y: int = 4
        name: str = "p"

    point = Point(n)
    return point, Point(1, 2)._replace(y=n), Point._fields, Point._field_defaults, Point.__doc__, point._asdict()


def of_typing(n):
    class Pair(typing.NamedTuple):
        left: int
        right: list

    return [Pair(n, [n]), Pair._make([1, []])]


def two_of_one(n):
    def make():
        class Point(NamedTuple):
            x: int

        return Point

    one, other = make(), make()
    return one(n), other(n), one is other, isinstance(one(1), other), one(2) == other(2)


def class_leaves(n):
    class Point(NamedTuple):
        x: int = 3

    return Point


def with_methods(n):
    class Point(NamedTuple):
        x: int
        y: int = 2

        def total(self):
            return self.x + self.y

    return Point(n).total(), Point(n, 5).total()


def described(result):
    if isinstance(result, type):
        return (
            described(result()),
            result.__qualname__,
            result.__module__,
            result.__orig_bases__,
            result.__annotations__,
        )
    if hasattr(result, "_fields"):
        kind = type(result)
        return [
            tuple(result),
            repr(result),
            kind.__name__,
            kind.__qualname__,
            kind.__module__,
            kind.__annotations__,
            kind.__doc__,
            kind._field_defaults,
            kind.__bases__,
            kind.__match_args__,
        ]
    return [described(item) for item in result] if type(result) in (tuple, list) else result


@pytest.mark.parametrize("program", [leaves, of_typing, two_of_one, class_leaves, with_methods])
def test_typed_named_tuples(program):
    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(program, fullgraph=True)
    for n in (1, 2, 5, 5):
        assert described(fast(n)) == described(program(n))


def test_each_call_has_a_class_of_its_own():
    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(lambda n: leaves(n)[:2], fullgraph=True)
    one, other = fast(1), fast(1)
    assert type(one[0]) is type(one[1]) is not type(other[0]) and one == other


def test_methods_that_leave_are_left_to_python():
    def program(n):
        class Point(NamedTuple):
            x: int

            def doubled(self):
                return self.x * 2

        return Point(n)

    fast = cdynamo.optimize(program)
    for n in (1, 2):
        assert fast(n).doubled() == 2 * n


def test_tensors_in_typed_named_tuples():
    torch = pytest.importorskip("torch")

    def program(x):
        class Output(NamedTuple):
            loss: torch.Tensor
            count: int = 0

        return Output(x.sum(), x.shape[0]), Output(x * 2)

    fast = cdynamo.optimize(program, fullgraph=True)
    for n in (2, 3, 4):
        x = torch.arange(float(n))
        for got, expected in zip(fast(x), program(x)):
            assert got._fields == expected._fields and torch.equal(got.loss, expected.loss)
            assert got.count == expected.count and type(got).__annotations__ == type(expected).__annotations__


# ---- contextvars.ContextVar


def variables(n):
    variable, other = contextvars.ContextVar("variable", default=n), contextvars.ContextVar("other")
    found = [variable.get(), variable.name, other.get(7), variable is other, {variable: 1}.get(other)]
    token = variable.set([n])
    found += [variable.get(), other.get(None)]
    variable.reset(token)
    found.append(variable.get())
    try:
        other.get()
    except LookupError as error:
        found.append((type(error).__name__, error.args[0] is other))
    other.set(n + 1)
    return found, other.get()


def in_functions(n):
    depth = contextvars.ContextVar("depth", default=0)

    def nested(level):
        token = depth.set(depth.get() + 1)
        try:
            return depth.get() if level == 0 else nested(level - 1)
        finally:
            depth.reset(token)

    return nested(n), depth.get()


@pytest.mark.parametrize("program", [variables, in_functions])
def test_variables_that_are_made_here(program):
    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(program, fullgraph=True)
    before = len(contextvars.copy_context())
    for n in (1, 2, 3, 3):
        assert fast(n) == contextvars.copy_context().run(program, n)
    assert len(contextvars.copy_context()) == before


def test_a_variable_that_leaves_is_left_to_python():
    def program(n):
        variable = contextvars.ContextVar("variable", default=n)
        variable.set(n + 1)
        return variable

    fast = cdynamo.optimize(program)
    for n in (1, 2):
        assert fast(n).get() == n + 1


def test_a_variable_over_a_graph_break():
    @cdynamo.disable
    def leave_to_python(variable):
        return variable.get()

    def program(n):
        variable = contextvars.ContextVar("variable")
        token = variable.set(n)
        seen = leave_to_python(variable)
        variable.reset(token)
        return seen, variable.get(None)

    fast = cdynamo.optimize(program)
    for n in (1, 2):
        assert fast(n) == (n, None)
