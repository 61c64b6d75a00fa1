"""What methods of builtin classes are given: counts and keywords that CPython refuses before the method runs."""

from __future__ import annotations

import collections

import pytest

import cdynamo

np = pytest.importorskip("numpy")


class Rows(dict):
    def __missing__(self, key):
        return "missing", key


class Names(list):
    pass


OBJECTS = {
    "list": lambda: [3, 1],
    "tuple": lambda: (3, 1),
    "dict": lambda: {"a": 1},
    "set": lambda: {1, 2},
    "frozenset": lambda: frozenset({1, 2}),
    "deque": lambda: collections.deque([1, 2]),
    "OrderedDict": lambda: collections.OrderedDict(a=1),
    "defaultdict": lambda: collections.defaultdict(list, a=[1]),
    "Counter": lambda: collections.Counter("aab"),
    "list's subclass": lambda: Names([1]),
    "dict's subclass": lambda: Rows(a=1),
    "range": lambda: range(3),
    "slice": lambda: slice(1, 5, 2),
}
METHODS = [
    "append", "extend", "insert", "pop", "remove", "clear", "copy", "reverse", "index", "count", "get", "setdefault", "popitem",
    "keys", "values", "items", "update", "add", "discard", "union", "isdisjoint", "issubset", "symmetric_difference",
    "symmetric_difference_update", "appendleft", "popleft", "extendleft", "rotate", "indices",
]  # fmt: skip
ARGUMENTS = ["", "1", "[1]", "'a'", "1, 2", "[1], [2]", "'a', 'b'", "1, 2, 3, 4", "key=1", "'a', default=2"]

# The same exceptions in words of their own.
OTHER_WORDS = {("deque", "insert"), ("deque", "index"), ("deque", "rotate"), ("OrderedDict", "update")}


@pytest.mark.parametrize("name", OBJECTS)
def test_calls_agree(name):
    for method in METHODS:
        if not hasattr(OBJECTS[name](), method) or (name, method) in OTHER_WORDS:
            continue
        for arguments in ARGUMENTS:
            source = f"""
def f(x):
    a, result = make(), None
    try:
        result = a.{method}({arguments})
    except Exception as error:
        result = repr(error)
    return x + 1, a, result
"""
            names = {"make": OBJECTS[name]}
            exec(source, names)
            expected = names["f"](np.ones(2))
            got = cdynamo.optimize(names["f"])(np.ones(2))
            assert repr(got) == repr(expected), f"{name}.{method}({arguments})"


def test_items_by_name_ask_for_what_is_missing():
    def f(x):
        counter, rows = collections.Counter("aab"), Rows(a=1)
        return (
            x + 1,
            counter.__getitem__("z"),
            rows.__getitem__("z"),
            rows.__getitem__("a"),
            dict.__getitem__(rows, "y"),
        )

    expected, got = f(np.ones(2)), cdynamo.optimize(f, fullgraph=True)(np.ones(2))
    assert got[1:] == expected[1:]
