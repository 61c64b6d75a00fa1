"""collections.namedtuple within captured code: a class of its own for each call."""

from __future__ import annotations

import collections

import pytest
from values_check import check

import cdynamo


def used_inside(x):
    Point = collections.namedtuple("Point", "x y", defaults=[2])
    point = Point(x)
    moved = point._replace(y=point.x + 1)
    first, second = moved
    return (
        (first, second, moved[1], moved.y, len(moved), moved == (x, x + 1), moved < point),
        (Point._fields, Point._field_defaults, Point._make([5, 6])._asdict(), repr(moved), f"{point}"),
        (isinstance(point, Point), issubclass(Point, tuple), type(point) is Point, {point: 1}[Point(x, 2)]),
        (Point.__name__, Point.__qualname__, Point.__module__, Point.__doc__, point.count(2), point.index(x)),
    )


def two_of_one_name():
    One, Other = (collections.namedtuple("P", ["a"]) for _ in range(2))
    return One is Other, One == Other, isinstance(One(1), Other), One(1) == Other(1)


def refused():
    found = []
    for names in ("a a", "1", "class", "_x"):
        try:
            collections.namedtuple("P", names)
        except ValueError as error:
            found.append(str(error))
    return found, collections.namedtuple("P", "a a class", rename=True)._fields


def handed_out(x):
    P = collections.namedtuple("P", "a b")
    return P(x, [P(x + 1, 3)]), P


@pytest.mark.parametrize(("fn", "args"), [(used_inside, (3,)), (two_of_one_name, ()), (refused, ())])
def test_in_one_graph(fn, args):
    check(fn, args)


def test_each_call_gives_a_class_of_its_own():
    compiled = cdynamo.optimize(handed_out, fullgraph=True)
    seen = set()
    for x in (1, 2, 1):
        got, cls = compiled(x)
        expected, other = handed_out(x)
        assert got == expected and repr(got) == repr(expected)
        assert type(got) is cls is type(got.b[0]) and cls.__module__ == other.__module__ == __name__
        seen.add(cls)
    assert len(seen) == 3


def test_what_is_set_on_the_class_stays_with_it():
    def program(x):
        P = collections.namedtuple("P", "a")
        before = hasattr(P, "twice")
        P.twice = lambda self: self.a * 2
        return before, P(x).twice()

    check(program, (1,), (2,), breaks=None)


def test_what_leads_to_the_class_is_of_the_same_one():
    def program():
        P = collections.namedtuple("P", "a")
        return P, P[int].__origin__, P.__mro__[0], P | None, (P, 1), P._make

    compiled = cdynamo.optimize(program)
    for _ in range(2):
        cls, origin, first, union, pair, make = compiled()
        assert cls is origin is first is union.__args__[0] is pair[0] is make.__self__ is type(make([1]))


def test_names_that_change():
    def program(names):
        return collections.namedtuple("P", names)(*range(len(names)))._asdict()

    check(program, (["a", "b"],), (["b", "c", "d"],), (["a", "b"],), breaks=None)
