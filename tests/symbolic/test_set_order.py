"""Sets iterate as plain Python's do, whatever has been done to them: inside a compiled function, in what leaves it, in
arguments that it changes, and in what is done to these later.
"""

import random

import numpy as np
import pytest

import cdynamo

METHODS = ["update", "difference_update", "intersection_update", "symmetric_difference_update"]
OPERATORS = ["|", "&", "-", "^"]


def elements(choose, count):
    """Numbers and strings, many of which collide in a small table."""
    pool = [lambda: choose.randrange(60), lambda: choose.randrange(12) * 8, lambda: choose.choice("abcdefgh")]
    return [choose.choice(pool)() for _ in range(count)]


def operand(choose):
    items = elements(choose, choose.choice([1, 3, 6, 12]))
    forms = ["set({})", "frozenset({})", "{{*{}}}", "dict.fromkeys({})", "dict.fromkeys({}).keys()"]
    return choose.choice(forms).format(items), items


def statement(choose):
    """One statement on the sets s and t; both stay sets."""
    other, items = operand(choose)
    key = repr(choose.choice(elements(choose, 1)))
    operator = choose.choice(OPERATORS)
    return choose.choice(
        [
            f"s.add({key})",
            f"s.discard({key})",
            f"s.discard({items[0]!r})",
            "if s: log.append(s.pop())",
            f"s.{choose.choice(METHODS)}({other})",
            f"s.{choose.choice(METHODS)}({items})",
            f"s = set(s {operator} set({other}))",
            f"s {operator}= set({other})",
            f"t = s {operator} t",
            f"t = dict.fromkeys({items}).keys() {operator} s",
            f"t = s {operator} dict.fromkeys({items}).keys()",
            f"t = set({other})",
            "s, t = t, s",
            "s = s.copy()",
            "log.append(list(s))",
            "log.append(frozenset(s))",
        ]
        + ["s.clear()"] * (choose.random() < 0.1)
    )


def program(seed):
    choose = random.Random(seed)
    body = [statement(choose) for _ in range(choose.choice([2, 4, 8]))]
    lines = [
        "def f(x, s, log):",
        "    t = {1}",
        *(f"    {line}" for line in body),
        "    return x + 1, s, t, frozenset(t)",
    ]
    names = {}
    exec("\n".join(lines), names)
    return names["f"], elements(choose, choose.choice([0, 2, 5, 9, 20])), "\n".join(lines)


def described(value, changes=elements(random.Random(0), 8)):
    """The order of a set, also of what is done to it later."""
    if isinstance(value, frozenset):
        return "frozenset", list(value)
    if isinstance(value, set):
        before, later = list(value), value.copy()
        value.update(changes)
        first = value.pop()
        return "set", before, list(later), first, value.pop(), list(value)
    return [described(item) for item in value] if isinstance(value, (list, tuple)) else value


def outcome(function, items, discarded):
    given, log = set(items), []
    for item in discarded:
        given.discard(item)
    x, *sets = function(np.ones(2), given, log)
    return x.tolist(), described(sets), log if given in sets else described([given]), [described(part) for part in log]


@pytest.mark.parametrize("group", range(10))
def test_order_is_plain_pythons(group):
    for seed in range(group * 40, group * 40 + 40):
        function, items, text = program(seed)
        discarded = items[::3] if seed % 3 == 0 else []
        cdynamo.reset()
        assert outcome(cdynamo.optimize(function), items, discarded) == outcome(function, items, discarded), text


def test_equal_sets_in_another_order():
    @cdynamo.optimize
    def f(x, s):
        return x + 1, list(s), s | {3}

    for items in ([1, 9, 17], [17, 9, 1], [9, 1, 17]):
        want = list(set(items)), list(set(items) | {3})
        got = f(np.ones(2), set(items))
        assert (got[1], list(got[2])) == want


def test_pop_goes_on_where_it_was():
    def f(x, s):
        first = s.pop()
        s.add(first + 8)
        return x + 1, first, s.pop(), s.pop()

    for items in ([0, 1, 2], [8, 3, 1, 16], range(20)):
        given = set(items)
        given.pop()
        assert cdynamo.optimize(f)(np.ones(2), given.copy())[1:] == f(np.ones(2), given.copy())[1:]
        assert cdynamo.optimize(f)(np.ones(2), set(items))[1:] == f(np.ones(2), set(items))[1:]


def test_a_subclass_that_was_changed():
    class Names(set):
        def clear(self):
            raise AssertionError("clear is not called")

    def f(x, s):
        s.discard(9)
        s.symmetric_difference_update([17, 1, 25])
        return x + 1

    sets = [Names([1, 9, 17, 33]), Names([1, 9, 17, 33])]
    f(np.ones(2), sets[0])
    cdynamo.optimize(f)(np.ones(2), sets[1])
    assert list(sets[0]) == list(sets[1])
    assert type(sets[1]) is Names
