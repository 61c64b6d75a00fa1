"""Methods of C types taken from their class and called with objects of other ones, and methods of classes themselves."""

from __future__ import annotations

import collections
import copy
import re

import pytest

import cdynamo


class Pair(collections.namedtuple("Pair", "a b")):
    pass


class Doubling(list):
    def __repr__(self):
        return "doubling"

    def __getitem__(self, index):
        return 7


class Meta(type):
    pass


class Made(metaclass=Meta):
    pass


SUBJECTS = {
    "list": [1],
    "tuple": (1, 2),
    "dict": {1: 2},
    "str": "ab",
    "int": 3,
    "set": {1},
    "range": range(3),
    "function": len,
    "a named tuple": Pair(1, 2),
    "a list of one's own": Doubling([1, 2]),
    "an object": Made(),
    "a class": Made,
    "an ordered dict": collections.OrderedDict(a=1),
    "a default dict": collections.defaultdict(int),
    "a deque": collections.deque([1]),
}
METHODS = [
    object.__repr__, object.__str__, object.__hash__, object.__format__, object.__dir__, object.__eq__, object.__ne__, object.__lt__,
    object.__getattribute__, list.__repr__, list.__len__, list.__getitem__, list.__eq__, list.index, tuple.__repr__, tuple.__getitem__,
    dict.__repr__, dict.get, int.__add__, int.__hash__, int.bit_length, str.__len__, str.upper, set.__contains__, collections.deque.count,
    type.__repr__,
]  # fmt: skip


def outcome_of(function, *args):
    try:
        outcome = ("returned", function(*args))
    except Exception as error:
        outcome = (type(error).__name__, error)
    return re.sub("0x[0-9a-f]+", "", str(outcome))


@pytest.mark.parametrize("name", SUBJECTS)
def test_methods_of_others(name):
    cdynamo.config.keep_empty_graphs = True
    for method in METHODS:
        for args in ((), (0,), ("x",)):

            def program(subject, method=method, args=args):
                return method(subject, *args)

            compiled = cdynamo.optimize(program)
            for _ in range(2):
                subject = copy.copy(SUBJECTS[name])
                assert outcome_of(compiled, subject) == outcome_of(program, subject), (method, args)


def new_caller(method):
    namespace = {"method": method}
    exec("def call(): return method()", namespace)
    return namespace["call"]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__qualname__)
def test_without_an_object(method):
    """Once for each code object: the second time CPython 3.12 and 3.13 may take what lies above the stack for the object."""
    cdynamo.config.keep_empty_graphs = True
    assert outcome_of(cdynamo.optimize(new_caller(method))) == outcome_of(new_caller(method))


@pytest.mark.parametrize(
    "method", [int.__call__, Made.__call__, Made.__subclasses__, Made.mro, type.__call__, Meta.__or__]
)
def test_methods_of_classes(method):
    def program():
        found = method
        return found is method, found.__name__, callable(found), found

    def called(given):
        try:
            return repr(given())
        except TypeError as error:
            return str(error)

    cdynamo.config.keep_empty_graphs = True
    assert cdynamo.optimize(program)() == program()
    assert re.sub("0x.*", "", cdynamo.optimize(called)(method)) == re.sub("0x.*", "", called(method))
