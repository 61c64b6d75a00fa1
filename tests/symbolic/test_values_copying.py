"""copy.copy and copy.deepcopy of what is no plain container, and what dataclasses says of its instances."""

from __future__ import annotations

import collections
import copy
import dataclasses
import typing

import pytest
from values_check import check

Pair = collections.namedtuple("Pair", "left right")


class Typed(typing.NamedTuple):
    left: object
    right: list


class Reduced(Pair):
    def __reduce__(self):
        return Pair, (0, 0)


@dataclasses.dataclass
class Config:
    size: int
    parts: list = dataclasses.field(default_factory=list)
    inner: object = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    name: str
    pair: Pair = Pair(1, (2,))


def named_tuples():
    pair = Pair([1], Typed("a", [2]))
    shallow, deep = copy.copy(pair), copy.deepcopy([pair, pair])
    return (
        (shallow, shallow is pair, shallow.left is pair.left, type(shallow).__name__),
        (deep, deep[0] is deep[1], deep[0] is pair, deep[0].left is pair.left),
        copy.deepcopy(Pair(1, 2)) == (1, 2),
    )


def told(config):
    return (
        dataclasses.asdict(config),
        dataclasses.astuple(config),
        [field.name for field in dataclasses.fields(config)],
        dataclasses.is_dataclass(config),
        dataclasses.replace(config, size=9),
        repr(config),
        str(Frozen("f")),
        "%s and %r" % Pair(1, "2"),
    )


def shown_in_itself():
    config = Config(1)
    config.inner = config
    config.parts = Config(2, inner=config)
    return repr(config), repr(config.parts)


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (named_tuples, ()),
        (told, (Config(1, [2], Config(3)),)),
        (dataclasses.asdict, (Config(4, [Pair(1, [5])]),)),
        (dataclasses.astuple, (Config(4, [Pair(1, [5])]),)),
        (shown_in_itself, ()),
    ],
)
def test_copies(fn, args):
    check(fn, args)


def test_copies_by_other_ways_are_pythons():
    check(lambda: copy.copy(Reduced(1, 2)), breaks=None)
