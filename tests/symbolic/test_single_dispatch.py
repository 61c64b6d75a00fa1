"""functools.singledispatch and singledispatchmethod in captured code."""

from __future__ import annotations

import collections.abc
import functools

import pytest
from values_check import check

import cdynamo


class Shape:
    def __init__(self, size):
        self.size = size


class Square(Shape):
    pass


@functools.singledispatch
def area(x, times=1):
    return "unknown", times


@area.register(int)
@area.register(float)
def _(x, times=1):
    return "number", x * times


@area.register(Shape)
def _(x, times=1):
    return "shape", x.size * times


@area.register(collections.abc.Sequence)
def _(x, times=1):
    return "sequence", [area(item) for item in x] * times


class Visitor:
    def __init__(self):
        self.seen = []

    @functools.singledispatchmethod
    def visit(self, x):
        self.seen.append("object")

    @visit.register(int)
    def _(self, x):
        self.seen.append(x + 1)

    @visit.register(list)
    def _(self, x):
        for item in x:
            self.visit(item)


def kinds(x):
    return area(x), area(2), area(True, times=3), area(2.5), area(Square(3)), area(None), area([1, Shape(2)])


def methods(x):
    visitor = Visitor()
    visitor.visit([1, [2, "text"], 3.5])
    visitor.visit(x)
    return visitor.seen


def looked_up(x):
    return area.dispatch(Square) is area.dispatch(Shape), area.dispatch(dict)(x)


def made_here(x):
    @functools.singledispatch
    def twice(value):
        return value, value

    @twice.register(int)
    def _(value):
        return 2 * value

    return twice(x), twice("a"), twice(True)


@pytest.mark.parametrize("fn", [kinds, methods, looked_up, made_here], ids=lambda fn: fn.__name__)
def test_dispatch(fn):
    check(fn, (3,), (2.5,))


def test_what_is_registered_is_guarded():
    @functools.singledispatch
    def kind(x):
        return "object"

    fast = cdynamo.optimize(lambda x: kind(x), fullgraph=True)
    cdynamo.config.keep_empty_graphs = True
    assert fast(Square(1)) == "object" == fast(3)
    kind.register(Shape, lambda x: "shape")
    assert fast(Square(1)) == "shape" and fast(3) == "object"
    kind.register(Square, lambda x: "square")
    assert fast(Square(1)) == "square" and fast(Shape(1)) == "shape"


def test_the_cache_is_no_reason_to_compile_again():
    torch = pytest.importorskip("torch")

    @functools.singledispatch
    def double(x):
        return x

    @double.register(torch.Tensor)
    def _(x):
        return x * 2

    cdynamo.reset()
    compiled = cdynamo.counters()["graphs_compiled"]
    fast = cdynamo.optimize(lambda x: double(x), fullgraph=True)
    for _ in range(3):
        assert torch.equal(fast(torch.ones(2)), torch.full((2,), 2.0))
    double(torch.ones(2))
    fast(torch.ones(2))
    assert cdynamo.counters()["graphs_compiled"] - compiled == 1
    assert torch.equal(fast(torch.nn.Parameter(torch.ones(2))), torch.full((2,), 2.0))


def test_an_ambiguous_dispatch_raises():
    class Sized:
        def __len__(self):
            return 0

        def __iter__(self):
            return iter(())

    @functools.singledispatch
    def kind(x):
        return "object"

    kind.register(collections.abc.Sized, lambda x: "sized")
    kind.register(collections.abc.Iterable, lambda x: "iterable")

    def caught(x):
        try:
            return kind(x)
        except RuntimeError as error:
            return str(error).split()[0]

    cdynamo.config.keep_empty_graphs = True
    assert cdynamo.optimize(caught, fullgraph=True)(Sized()) == caught(Sized()) == "Ambiguous"
