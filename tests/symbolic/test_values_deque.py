"""collections.deque: made inside, given, held by objects, subclassed; compiled against plain Python."""

from __future__ import annotations

import collections
import copy
from collections import deque

import pytest
from values_check import check

import cdynamo


def ends(d):
    d.append(1)
    d.appendleft(2)
    return d.pop(), d.popleft(), d[0], d[-1], len(d), bool(d), d.maxlen


def bounded():
    d = deque([1, 2, 3], maxlen=3)
    d.append(4)
    d.appendleft(5)
    d.extend("ab")
    d.extendleft([7, 8])
    return d, deque(range(9), 4), deque([1], 0), deque(d, maxlen=2)


def places(d):
    d.rotate(2)
    d.rotate(-7)
    d.rotate()
    d[1] = "one"
    d[-1] = "last"
    del d[0]
    d.insert(1, "in")
    d.insert(-1, "before the last")
    d.insert(99, "end")
    d.remove("one")
    d.reverse()
    return d.index("in"), d.index(3, 1), d.index(3, -4, 99), d.count(3), "in" in d, 77 in d


def operators(d):
    e = d + deque([1, 2])
    f = d * 2
    g = 2 * d
    alias = e
    e += [8]
    e *= 2
    return e, f, g, alias is e, d == deque(d), d != e, d < e, d >= e, d == list(d), repr(d), str(deque())


def copies(d):
    d.append([1])
    one, two, three, four = d.copy(), copy.copy(d), copy.deepcopy(d), deque(d)
    one[-1].append(2)
    return (
        one,
        two,
        three,
        four,
        [*d],
        tuple(d),
        list(reversed(d)),
        sorted(deque([3, 1])),
        dict(enumerate(d)),
        max(deque([1, 5])),
    )


def iteration(d):
    total = 0
    for i, item in enumerate(d):
        total += i * item
        d[i] = -item
    first, *rest = d
    iterator = iter(d)
    return total, first, rest, next(iterator), list(iterator), list(iterator)


def emptied(d):
    taken = []
    while d:
        taken.append(d.popleft())
        if len(taken) == 2:
            d.clear()
    d.clear()
    d.extend(d)
    d.append(3)
    d.extend(d)
    return taken, d


def errors(d):
    """The text of each error, and what it leaves behind."""

    def mutated():
        for item in d:
            d.append(item)

    def reversed_and_mutated():
        for item in reversed(d):
            d.popleft()

    def half():
        d.extend(int(x) for x in ["4", "five", "6"])

    said = []
    for wrong in (
        lambda: deque().pop(), lambda: deque().popleft(), lambda: d[17], lambda: d[-17], lambda: d["a"], lambda: d[1:],
        lambda: d.remove("not there"), lambda: d.index("not there"), lambda: deque([1], 1).insert(0, 2), lambda: deque([], -1),
        lambda: deque([], "a"), lambda: deque(3), lambda: hash(d), lambda: {d: 1}, lambda: deque() < [], mutated, reversed_and_mutated,
        half, lambda: d.rotate("a"),
    ):  # fmt: skip
        try:
            wrong()
        except Exception as error:
            said.append((type(error).__name__, str(error)))
    return said, d


class Equal:
    def __init__(self, d):
        self.d = d

    def __eq__(self, other):
        self.d.append(other)
        return False


def mutated_by_comparing():
    d = deque([1, 2])
    d.append(Equal(d))
    said = []
    for wrong in (lambda: 3 in d, lambda: d.remove(3), lambda: d.index(3), lambda: d.count(3)):
        try:
            wrong()
        except Exception as error:
            said.append((type(error).__name__, str(error)))
    return said, len(d)


class Recent(deque):
    seen = 0

    def append(self, item):
        self.seen += 1
        super().append(item)

    def total(self):
        return sum(self)


def subclass():
    recent = Recent([1, 2], 3)
    for i in range(4):
        recent.append(i)
    return recent.total(), recent, recent.maxlen, isinstance(recent, deque), len(recent)


def subclass_given(recent):
    recent.append(5)
    recent.appendleft(6)
    return recent[0], recent.total()


class Held:
    def __init__(self):
        self.memory = deque(maxlen=4)


def held(holder, item):
    holder.memory.append(item)
    holder.memory.append(item + 1)


def holds_itself():
    d = deque([1])
    d.append(d)
    e = Held()
    e.memory.append(e)
    return d[1] is d, d, e


def shared(d):
    other = [d, d]
    other[0].append(1)
    return other, d


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        (ends, (deque([7, 8, 9]),)), (ends, (deque([7, 8, 9], 3),)), (bounded, ()), (places, (deque([1, 2, 3, 3, 4]),)),
        (operators, (deque([1, 2], 3),)), (operators, (deque(),)), (copies, (deque([1, 2]),)), (copies, (deque([1, 2], 2),)),
        (iteration, (deque([1, 2, 3]),)), (emptied, (deque([1, 2, 3, 4]),)), (errors, (deque([1, 2, 3]),)),
        (mutated_by_comparing, ()), (subclass, ()), (subclass_given, (Recent([1, 2], 3),)), (held, (Held(), 3)),
        (holds_itself, ()), (shared, (deque(),)),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)  # fmt: skip
def test_deque(program, arguments):
    check(program, arguments)


def test_one_that_only_grows_is_no_reason_to_compile_again(counts):
    compiled = cdynamo.optimize(held, fullgraph=True)
    mine, theirs = Held(), Held()
    for i in range(10):
        compiled(mine, i)
        held(theirs, i)
        assert mine.memory == theirs.memory
    assert counts.recompiles <= 1  # the number becomes an input


def test_guards(counts):
    def program(d):
        return d[0] * 2, len(d), d.maxlen

    cdynamo.config.keep_empty_graphs = True
    compiled = cdynamo.optimize(program)
    for d in (deque([1]), deque([1]), deque([1, 2]), deque([1, 2], 3), deque(["a", 2], 3), [1, 2]):
        if isinstance(d, deque):
            assert compiled(d) == program(d)
        else:
            with pytest.raises(AttributeError):
                compiled(d)
    assert counts.recompiles == 4


def test_a_graph_break_hands_it_on():
    def program(d):
        d.append(1)
        iterator = iter(d)
        first = next(iterator)
        cdynamo.graph_break()
        d.append(2)
        try:
            next(iterator)
        except RuntimeError as error:
            return first, str(error), list(d)

    check(program, (deque([5]),), breaks=None)


def test_counter_and_ordered_dict():
    def program(c, o):
        c["a"] += 1
        c.update("ab")
        c.subtract({"b": 5})
        o.move_to_end("x")
        o.move_to_end("z", last=False)
        return c["missing"], c.most_common(1), c + collections.Counter("a"), o.popitem(), o.popitem(last=False), list(o)

    check(program, (collections.Counter("aab"), collections.OrderedDict(x=1, y=2, z=3)))
