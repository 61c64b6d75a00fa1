"""types.MappingProxyType that comes in: what it shows is looked up, and guarded, as in the dict itself."""

from __future__ import annotations

import collections
import types

import pytest
from values_check import check

import cdynamo

SHOWN = {"a": 1, "b": 2}
PROXY = types.MappingProxyType(SHOWN)
ORDERED = types.MappingProxyType(collections.OrderedDict(x=1, y=2))


class Registry:
    known = types.MappingProxyType({"scale": 3, "shift": [4]})


def looked_up(n):
    return PROXY["a"] + n, PROXY.get("c"), "b" in PROXY, len(PROXY), bool(PROXY), PROXY.copy(), PROXY | {"c": n}


def iterated(n):
    return list(PROXY), list(PROXY.items()), [*PROXY.values()], {**PROXY}, dict(PROXY), [k for k in ORDERED]


def of_a_class(n):
    return Registry.known["scale"] * n, Registry.known["shift"], sorted(Registry.known)


def missing(n):
    try:
        return PROXY["none"]
    except KeyError as error:
        return error.args


def refused(n):
    try:
        PROXY["a"] = n
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("fn", [looked_up, iterated, of_a_class, missing, refused])
def test_of_a_module(fn):
    check(fn, (3,), (4,))


def test_as_an_argument():
    def total(config, n):
        return sum(config.values()) + config["a"] + n, config

    compiled = cdynamo.optimize(total, fullgraph=True)
    for contents in ({"a": 1, "b": 2}, {"a": 5, "b": 2}, {"a": 1}, {"b": 1, "a": 7, "c": 2}):
        proxy = types.MappingProxyType(contents)
        got = compiled(proxy, 3)
        assert got[0] == total(proxy, 3)[0] and got[1] is proxy


def test_what_it_shows_may_change():
    contents = {"a": 1}
    proxy = types.MappingProxyType(contents)

    def read(n):
        contents["b"] = n
        return proxy["a"], proxy["b"], len(proxy)

    compiled = cdynamo.optimize(read, fullgraph=True)
    for a, n in ((1, 2), (3, 4), (3, 5)):
        contents["a"] = a
        assert compiled(n) == (a, n, 2)


def broken(n):
    total = 0
    for key in PROXY:
        cdynamo.graph_break()
        total += PROXY[key]
    for _, value in ORDERED.items():
        cdynamo.graph_break()
        total += value * n
    proxy = types.MappingProxyType({"k": n})
    cdynamo.graph_break()
    return total, proxy["k"], list(proxy)


def namespace_of_a_class(n):
    names = []
    for name, value in Registry.__dict__.items():
        cdynamo.graph_break()
        names.append((name, value is None))
    return names, n


@pytest.mark.parametrize("fn", [broken, namespace_of_a_class])
def test_across_graph_breaks(fn):
    check(fn, (3,), (4,), breaks=None)
