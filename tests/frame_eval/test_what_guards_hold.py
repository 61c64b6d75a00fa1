"""An entry of the cache keeps no object of the program's alive that only a call has brought: what it was an attribute, an element, a
key or an argument of, and how the function looked at it."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import itertools
import types
import weakref

import numpy as np
import pytest

import cdynamo


class Item:
    def __init__(self, v=1.0):
        self.v = v

    def method(self):
        return self.v

    def __call__(self, x):
        return x * self.v


class Equal(Item):
    def __eq__(self, other):
        return isinstance(other, Equal) and other.v == self.v

    def __hash__(self):
        return 7


@dataclasses.dataclass(frozen=True)
class Frozen:
    item: object


PROGRAMS = {
    "attribute": (lambda i: i, lambda o, x: x * o.v),
    "handed on": (lambda i: i, lambda o, x: (o, x * 2)),
    "identity": (lambda i: (i, Item()), lambda o, x: x * 2 if o[0] is o[1] else x),
    "equality": (lambda i: (i, i), lambda o, x: x * 2 if o[0] == o[1] else x),
    "list": (lambda i: ([Item(), i], i), lambda o, x: x * o[0].index(o[1])),
    "tuple": (lambda i: ((i,), i), lambda o, x: x * 2 if o[1] in o[0] else x),
    "value of a dict": (lambda i: {"k": i}, lambda o, x: x * o["k"].v),
    "key of a dict": (lambda i: ({i: 2.0}, i), lambda o, x: x * o[0][o[1]]),
    "key that may be there": (lambda i: ({i: 2.0}, i), lambda o, x: x * o[0].get(o[1], 3)),
    "key that is not there": (lambda i: ({}, i), lambda o, x: x * o[0].get(o[1], 3)),
    "key that is asked for": (lambda i: ({i: 1}, i), lambda o, x: x * 2 if o[1] in o[0] else x),
    "key that is written": (lambda i: ({}, i), lambda o, x: (o[0].__setitem__(o[1], 2), x * 2)[1]),
    "items of a dict": (lambda i: {i: 2.0}, lambda o, x: sum(x * k.v * v for k, v in o.items())),
    "key of a defaultdict": (lambda i: (collections.defaultdict(int, {i: 2}), i), lambda o, x: x * o[0][o[1]]),
    "keys of an OrderedDict": (lambda i: collections.OrderedDict({i: i}), lambda o, x: x * len([k for k in o])),
    "counted": (lambda i: collections.Counter([i]), lambda o, x: x * len(list(o))),
    "key of a dataclass": (lambda i: ({Frozen(i): 2.0}, Frozen(i)), lambda o, x: x * o[0][o[1]]),
    "mapping": (lambda i: types.MappingProxyType({i: 1.0}), lambda o, x: x * sum(o.values())),
    "set": (lambda i: ({i}, i), lambda o, x: x * 2 if o[1] in o[0] else x),
    "added to a set": (lambda i: (set(), i), lambda o, x: (o[0].add(o[1]), x * 2)[1]),
    "frozenset": (lambda i: frozenset([i]), lambda o, x: x * len(o)),
    "method": (lambda i: i.method, lambda o, x: x * o()),
    "called": (lambda i: i, lambda o, x: o(x)),
    "partial": (lambda i: functools.partial(i), lambda o, x: o(x)),
    "closure": (lambda i: lambda: i.v, lambda o, x: x * o()),
    "default": (lambda i: lambda a=i: a.v, lambda o, x: x * o()),
    "deque": (lambda i: collections.deque([i, i, i]), lambda o, x: x * o.popleft().v),
    "iterator": (lambda i: itertools.chain([i] * 3), lambda o, x: x * next(o).v),
    "namespace": (lambda i: types.SimpleNamespace(i=i), lambda o, x: x * o.i.v),
    "attribute of a class": (lambda i: type("C", (), {"i": i}), lambda o, x: x * o.i.v),
    "hashed": (lambda i: i, lambda o, x: (x * 2, hash(o))[0]),
    "written to": (lambda i: i, lambda o, x: (setattr(o, "v", o.v + 1), x * 2)[1]),
    "key of a weak dict": (lambda i: (weakref.WeakKeyDictionary({i: 2.0}), i), lambda o, x: x * o[0][o[1]]),
    "key of what is made": (lambda i: [i, i], lambda o, x: x * len({a: 1 for a in o})),
}


@pytest.mark.parametrize("kind", [Item, Equal])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_call_brought_is_freed(name, kind):
    make, program = PROGRAMS[name]
    fast, x = cdynamo.optimize(program), np.ones(2)

    def call():
        item = kind()
        brought = make(item)
        for _ in range(2):
            fast(brought, x)
        return weakref.ref(item)

    for _ in range(2):
        reference = call()
        gc.collect()
        assert reference() is None


def test_a_key_of_the_same_place_is_another():
    """What has died is not the key that comes next, wherever that lies."""

    def f(d, k, x):
        return x * d.get(k, 5)

    fast, x = cdynamo.optimize(f), np.ones(2)
    for n in range(20):
        item = Item(n)
        d = {item: n} if n % 3 else {}
        np.testing.assert_array_equal(fast(d, item, x), f(d, item, x))
        del item, d
