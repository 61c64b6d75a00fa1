"""Objects that are told from others by identity: a call that passes one twice, or another one, is seen to differ."""

from __future__ import annotations

import collections
import copy
import operator

import pytest

import cdynamo


class Plain:
    def __init__(self, value):
        self.value = value

    def method(self):
        return self.value


ONE, TWO = Plain(1), Plain(2)
BY_OBJECT = {ONE: 10, TWO: 20}
OBJECTS = {ONE}
LISTED = [ONE]


def in_live_dict(a, b):
    return BY_OBJECT.get(a), BY_OBJECT[b], a in BY_OBJECT


def in_live_set(a, b):
    return a in OBJECTS, b in OBJECTS


def in_new_dict(a, b):
    made = {a: 1}
    return b in made, len({a: 1, b: 2}), made.get(b)


def in_new_set(a, b):
    return b in {a}, len({a, b}), b in frozenset([a]), {a: 1}.get(b)


def compared(a, b):
    return a == b, a != b, a is b, a.__eq__(b) is True, operator.eq(a, b), operator.is_(a, b), operator.is_not(a, b)


def compared_in_containers(a, b):
    return (a, 1) == (b, 1), [a] == [b], {1: a} == {1: b}, (a,) != (b,)


def looked_for(a, b):
    items = [a]
    found = b in items, items.count(b), b in (a,), b in {1: a}.values(), b in collections.deque([a]), b in LISTED
    if b in items:
        items.remove(b)
    return found, len(items), operator.countOf([a, b, a], b), [i for i, item in enumerate([a, b]) if item == b]


def bound(a, b):
    return a.method == b.method, a.method in [b.method], collections.Counter([a, b])[a]


def copied(a, b):
    one, other = copy.deepcopy([a, b])
    return one is other, one == other


@pytest.mark.parametrize(
    "program",
    [in_live_dict, in_live_set, in_new_dict, in_new_set]
    + [compared, compared_in_containers, looked_for, bound, copied],
)
def test_other_objects(program):
    cdynamo.reset()
    cdynamo.config.keep_empty_graphs = True
    for first in ((ONE, ONE), (ONE, TWO), (TWO, ONE)):
        compiled = cdynamo.optimize(program, fullgraph=True)
        for pair in (first, (ONE, ONE), (ONE, TWO), (TWO, TWO), (TWO, ONE), first):
            assert compiled(*pair) == program(*pair)


@pytest.mark.parametrize("kind", [list, dict, set])
def test_containers_are_copied_once(kind):
    one, other = kind(), kind()

    def program(a, b):
        c, d = copy.deepcopy([a, b])
        return c is d

    for first in ((one, one), (one, other)):
        compiled = cdynamo.optimize(program, fullgraph=True)
        for pair in (first, (one, one), (one, other), (other, other)):
            assert compiled(*pair) == program(*pair)


def test_tensors():
    torch = pytest.importorskip("torch")
    x, y = torch.ones(2), torch.zeros(2)

    def program(a, b):
        return a + len({a, b}), (b in {a: 1}, operator.is_(a, b), operator.is_not(a, b))

    for first in ((x, x), (x, y)):
        compiled = cdynamo.optimize(program, fullgraph=True)
        for pair in (first, (x, y), (x, x), (y, y), (y, x)):
            got, expected = compiled(*pair), program(*pair)
            assert torch.equal(got[0], expected[0]) and got[1] == expected[1]


def sizes_of_torch():
    return pytest.importorskip("torch").Size([2, 3])


def dtype_of_torch():
    return pytest.importorskip("torch").float32


def dtype_of_numpy():
    return pytest.importorskip("numpy").dtype("float32")


@pytest.mark.parametrize(
    "make",
    [
        sizes_of_torch, dtype_of_torch, dtype_of_numpy, lambda: (1, 2), lambda: [1], lambda: {"a": 1}, lambda: {1}, lambda: range(3),
        lambda: slice(1, 2), lambda: Plain(1), lambda: Plain, lambda: len, lambda: "text", lambda: b"b", lambda: 2.5, lambda: 1j,
        lambda: frozenset({1}), lambda: collections.deque([1]), lambda: operator.itemgetter(1), lambda: Plain(2).method,
        lambda: collections.namedtuple("Pair", "a b")(1, 2), lambda: iter([1, 2]), lambda: operator, lambda: ValueError("v"), lambda: None,
    ],
)  # fmt: skip
def test_one_object_under_two_names_that_are_two_later(make):
    """Whatever it is: what stands under the second name is looked at, too."""
    cdynamo.config.keep_empty_graphs = True

    class Holder:
        def __init__(self, first, second):
            self.first, self.second = first, second

    def program(holder):
        return holder.first, holder.second

    fast = cdynamo.optimize(program)
    one = make()
    for first, second in [(one, one), (one, 7), (one, make()), (8, one), (one, one)]:
        got = fast(Holder(first, second))
        assert type(got[0]) is type(first) and type(got[1]) is type(second)
        # Sizes are made anew where they leave.
        assert make is sizes_of_torch or (got[0] is got[1]) == (first is second)


def test_a_list_that_holds_itself_as_an_array():
    np = pytest.importorskip("numpy")
    cdynamo.config.keep_empty_graphs = True

    def program(items):
        items.append(items)
        try:
            return np.asarray(items)
        except ValueError as error:
            return str(error)

    assert cdynamo.optimize(program)([(1, 2), {}]) == program([(1, 2), {}])


def test_ranges_are_made_by_each_call():
    cdynamo.config.keep_empty_graphs = True

    def program():
        made = range(3)
        return made, made, range(3)

    fast = cdynamo.optimize(program)
    first, second = fast(), fast()
    assert first == program() and first[0] is first[1] and first[0] is not first[2]
    assert first[0] is not second[0]
