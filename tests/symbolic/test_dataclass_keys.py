"""Instances of frozen dataclasses as keys: told apart by their fields."""

from __future__ import annotations

import dataclasses

import pytest
from values_check import check

import cdynamo


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.5
    tags: tuple = ()
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class Labelled(Point):
    label: str = "p"


@dataclasses.dataclass(eq=True, unsafe_hash=True)
class Changeable:
    x: int


@dataclasses.dataclass(frozen=True)
class OwnEqual:
    x: int

    def __eq__(self, other):
        return isinstance(other, OwnEqual) and self.x % 2 == other.x % 2

    def __hash__(self):
        return hash(self.x % 2)


POINTS = {Point(1): "one", Point(2, 1.5): "two", (1, 0.5, ()): "tuple"}


def hashes():
    return hash(Point(1)) == hash(Point(1)), hash(Point(1, 2.0)), hash(Labelled(1)), hash(OwnEqual(3))


def new_keys():
    made = {Point(1): 1, Labelled(1): 2, (1, 0.5, ()): 3}
    made[Point(1, note="other")] = 4
    return [(key, made[key]) for key in made], made[Point(1)], Point(2) in made, len({Point(1), Point(1), Point(3)})


def live_keys(x):
    return POINTS[Point(1)], POINTS.get(Point(x)), Point(2, 1.5) in POINTS, [type(key).__name__ for key in POINTS]


def nested_keys():
    inner = Point(1, tags=("a", Point(2)))
    return {inner: 1}[Point(1, tags=("a", Point(2)))], {(inner, 3): 2}.get((inner, 3))


def order_of_sets(points):
    return [point.x for point in set(points)], [point.x for point in frozenset(points)]


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (hashes, ()),
        (new_keys, ()),
        (live_keys, (2,)),
        (live_keys, (1,)),
        (nested_keys, ()),
        (order_of_sets, ([Point(x, 0.25 * x) for x in range(9)],)),
    ],
)
def test_frozen_dataclasses(fn, args):
    check(fn, args)


@pytest.mark.parametrize("kind", [Changeable, OwnEqual])
def test_other_hashes_are_pythons(kind):
    def program(x):
        return {kind(x): 1}.get(kind(x + 2))

    check(program, (1,), (2,), breaks=None)


def test_fields_that_change_are_seen():
    cdynamo.reset()
    compiled = cdynamo.optimize(lambda point: POINTS.get(point), fullgraph=True)
    for point in (Point(1), Point(2), Point(2, 1.5), Point(1), Labelled(1)):
        assert compiled(point) == POINTS.get(point)
