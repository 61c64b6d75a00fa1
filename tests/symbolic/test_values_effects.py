"""What a program changes: order, aliasing, graph breaks in between, state that lives outside of the arguments."""

from __future__ import annotations

import pytest
from saying import shout
from values_check import canonical, check

import cdynamo


class Box:
    def __init__(self, a=1, b=2):
        self.a = a
        self.b = b


def read_then_clear(l, d, o):
    a, b, c = l[0], d["k"], o.a
    l.clear()
    d.clear()
    o.a = None
    del o.b
    return a, b, c


def swaps(l, d, o):
    l[0], l[1] = l[1], l[0]
    d["a"], d["b"] = d["b"], d["a"]
    o.a, o.b = o.b, o.a
    l[0], o.a = o.a, l[0]


def move_between(l, o):
    o.a = l
    l.append(o)
    o.b = o.a[-1]
    inner = l.pop(0)
    inner.append(l)
    return o.b is o


def replaced_container(o):
    old = o.a
    o.a = list(old)
    old.append("old")
    o.a.append("new")
    return old


def same_object_twice(l, o):
    l.extend([o, o, [o]])
    o.a = (o.b, l)


def keywords(**named):
    named["made"] = 1
    named.pop("x", None)
    return named


def set_and_undo(d, l, o):
    d["t"] = 1
    del d["t"]
    l.append(1)
    l.pop()
    o.t = 1
    del o.t
    return len(d), len(l), hasattr(o, "t")


def reinserted(d):
    d["a"] = d.pop("a")
    d["b"] = 1
    d.pop("b")
    d["b"] = 2
    return list(d)


@pytest.mark.parametrize(
    "fn, args",
    [
        (read_then_clear, ([[1]], {"k": [2]}, Box([3]))),
        (swaps, ([1, [2]], {"a": 1, "b": [2]}, Box(1, [2]))),
        (move_between, ([[1], [2]], Box())),
        (replaced_container, (Box([1]),)),
        (same_object_twice, ([], Box())),
        (set_and_undo, ({}, [], Box())),
        (reinserted, ({"a": 1, "b": 0, "c": 2},)),
    ],
    ids=lambda p: getattr(p, "__name__", ""),
)
def test_changes(fn, args):
    check(fn, args)


def test_keywords():
    cdynamo.config.keep_empty_graphs = True
    compiled = cdynamo.optimize(keywords)
    for given in ({"x": 1, "y": 2}, {"z": 3}):
        assert compiled(**given) == keywords(**given)


# ---- state outside of the arguments

TABLE: dict = {}
COUNT = 0


class Registry:
    items: list = []


def with_default(x, seen=[]):
    seen.append(x)
    return seen


def with_global(x):
    global COUNT
    COUNT += x
    TABLE[x] = TABLE.get(x, 0) + COUNT
    return COUNT, dict(TABLE)


def with_class(x):
    Registry.items.append(x)
    return list(Registry.items)


def make_closure():
    total = 0
    history = []

    def add(x):
        nonlocal total
        total += x
        history.append(total)
        return total, list(history)

    return add


def test_state_outside_of_the_arguments():
    cdynamo.config.keep_empty_graphs = True
    global COUNT
    compiled = cdynamo.optimize(with_default)
    first = compiled(1)
    assert first is compiled(2) and first == [1, 2] and with_default(3) is first

    compiled = cdynamo.optimize(with_global)
    COUNT = 0
    TABLE.clear()
    expected = [with_global(x) for x in (1, 2, 1)]
    COUNT = 0
    TABLE.clear()
    assert [compiled(x) for x in (1, 2, 1)] == expected

    compiled = cdynamo.optimize(with_class)
    assert [compiled(x) for x in (1, 2)] == [[1], [1, 2]]

    plain, other = make_closure(), cdynamo.optimize(make_closure())
    for x in (1, 2, 3, 4):
        assert plain(x) == other(x)


# ---- graph breaks in between


def broken_straight(l, d, o):
    l.append(1)
    made = [l, {"n": l}]
    o.a = made
    shout("one")
    made[0].append(2)
    made[1]["m"] = o
    d["k"] = made
    shout("two")
    d["k"][1]["n"].append(3)
    return made, d, o.a is made


def broken_loop(l):
    out = []
    for i, x in enumerate(l):
        shout(x)
        out.append((i, x))
        if len(l) < 5:
            l.append(x)
    return out


def broken_dict_loop(d):
    total = 0
    for key, value in d.items():
        shout(key)
        d[key] = value + 1
        total += d[key]
    return total


def broken_callee(l):
    def inner(m):
        m.append("in")
        shout("inner")
        m.append("out")
        return m

    l.append("before")
    result = inner(l)
    l.append("after")
    return result is l


def broken_with_objects(x):
    box = Box(x)
    box.list = [box]
    shout(box.a)
    box.b = box.list
    box.list.append(x)
    return box, box.b is box.list, box.list[0] is box


def broken_iterators(l):
    it = iter(l)
    a = next(it)
    z = zip(l, "abcd")
    next(z)
    r = range(3)
    s = slice(1, None)
    shout(a)
    return list(it), list(z), list(r), l[s]


def broken_try(l):
    try:
        l.append(1)
        shout("try")
        l.append(2)
        raise ValueError("x")
    except ValueError as error:
        l.append(str(error))
    finally:
        l.append("finally")
    return l


@pytest.mark.parametrize(
    "fn, args",
    [
        (broken_straight, ([0], {}, Box())),
        (broken_loop, ([1, 2],)),
        (broken_dict_loop, ({"a": 1, "b": 2},)),
        (broken_callee, ([],)),
        (broken_with_objects, (3,)),
        (broken_iterators, ([1, 2, 3],)),
        (broken_try, ([],)),
    ],
    ids=lambda p: getattr(p, "__name__", ""),
)
def test_graph_breaks_between_changes(fn, args):
    check(fn, args, breaks=None)


def test_containers_of_many_shapes():
    def total(x):
        if isinstance(x, (list, tuple, set)):
            return sum(total(v) for v in x)
        if isinstance(x, dict):
            return sum(total(v) for v in x.values())
        return x

    shapes = [[1, 2], (1, 2), {1, 2}, {"a": 1}, [[1], (2, [3])], {"a": [1], "b": {"c": 2}}, [], 5, [1, 2.5], [True, 1]]
    cdynamo.config.recompile_limit = 64
    check(total, *[(s,) for s in shapes], *[(s,) for s in reversed(shapes)])


def test_canonical_sees_aliasing():
    a = [1]
    assert canonical([a, a]) != canonical([[1], [1]])
    assert canonical([1]) != canonical([True]) and canonical((1,)) != canonical([1])
