"""Lists, tuples, dicts, sets, slices, ranges, iterators: reading, writing, aliasing."""

from __future__ import annotations

import collections
import copy
import operator
import random
import types

import pytest
from values_check import check

import cdynamo

Pair = collections.namedtuple("Pair", "first second")


# ---- an OrderedDict's own attributes


def ordered_with_attributes():
    ordered = collections.OrderedDict(a=1)
    before = hasattr(ordered, "versions")
    ordered.versions = collections.OrderedDict()
    ordered.versions["a"] = dict(version=2)
    ordered["b"] = len(ordered.versions)
    other = collections.OrderedDict(ordered)
    copied = copy.copy(other)
    return ordered, before, hasattr(ordered, "versions"), ordered.versions["a"], hasattr(other, "versions"), copied


def test_attributes_of_an_ordered_dict():
    check(ordered_with_attributes)
    assert cdynamo.optimize(ordered_with_attributes)()[0].versions == {"a": {"version": 2}}


def ordered_copied_with_attributes(deep):
    ordered = collections.OrderedDict(a=1)
    ordered.more = [1]
    copied = copy.deepcopy(ordered) if deep else copy.copy(ordered)
    copied.more.append(2)
    return ordered.more, copied.more, vars(copied)


def test_an_ordered_dict_is_copied_with_its_attributes():
    check(ordered_copied_with_attributes, (True,), (False,), breaks=None)


def test_an_ordered_dict_refuses_attributes_that_it_has():
    def refused():
        ordered = collections.OrderedDict(a=1)
        ordered.keys = 3
        return ordered.keys, ordered

    def of_itself():
        ordered = collections.OrderedDict(a=1)
        ordered.itself = ordered
        return ordered.itself is ordered, len(ordered)

    check(refused, breaks=None)
    check(of_itself, breaks=None)


# ---- lists and tuples


def list_methods(l):
    l.append(5)
    l.extend((6, 7))
    l.insert(1, "one")
    l.insert(-1, "late")
    l.insert(100, "end")
    popped = l.pop(), l.pop(0)
    l.remove(7)
    l.reverse()
    return popped, l.index(5), l.count(2), l.copy(), len(l), bool(l)


def list_items(l):
    l[0] = l[-1]
    del l[1]
    l[1:1] = [10, 11]
    l[::2] = [0] * len(l[::2])
    del l[-2:]
    return l[1:], l[::-1], l[5:1], l[-1], 11 in l


def list_operators(l, m):
    n = l
    l += m
    k = l + m
    k *= 2
    return n is l, k, l * 2, 2 * m, l == m, l < m, l >= m, l != k


def list_sort(l):
    l.sort()
    down = sorted(l, reverse=True)
    stable = sorted(["b", "aa", "c", "dd"], key=len, reverse=True)
    l.sort(key=lambda v: -v)
    return down, stable


def list_clear(l):
    alias = [l, l]
    l.clear()
    return alias


def nested(l):
    l[0].append(l[1])
    l[1]["new"] = l[0]
    return l[0] is l[1]["new"]


def aliased(a, b):
    a.append(1)
    return len(b), a is b, a == b


def tuples(t, x):
    a, *b, c = t
    return (
        t + (x,),
        t * 2,
        t[1:],
        t[-1],
        t.index(2),
        t.count(1),
        a,
        b,
        c,
        t == (1, 2, 3),
        t < (2,),
        x in t,
        hash((1, 2)) == hash((1, 2)),
    )


def unpacking(l):
    (a, b), *rest = [l, *l, (3,)]
    return [*rest, *l], {*l, 9}, (*l,), a, b


def new_lists(n):
    l = [[0] * n for _ in range(3)]
    l[0][0] = 1
    shared = [[]] * 2
    shared[0].append(n)
    return l, shared


def index_error(l):
    try:
        return l[7]
    except IndexError as error:
        return str(error)


def uncaught_index_error(l):
    return l[7]


def remove_missing(l):
    l.append(1)
    l.remove("missing")


def named(p):
    q = p._replace(first=[p.second])
    a, b = q
    return p.first + 1, q, Pair(1, second=2), p._asdict(), p[0], len(p), p == (1, 2), a, isinstance(p, tuple)


def grows_while_iterated(l):
    for item in l:
        if len(l) < 6:
            l.append(item * 2)
    return l


@pytest.mark.parametrize(
    "fn, calls",
    [
        (list_methods, [([1, 2, 3],), ([1, 2],)]),
        (list_items, [([1, 2, 3, 4],), ([4, 3, 2],)]),
        (list_operators, [([1], [2, 3]), ([], [])]),
        (list_sort, [([3, 1, 2],), ([],)]),
        (list_clear, [([3, 1, 2],)]),
        (nested, [([[1], {}],)]),
        (aliased, [([1], [1])]),
        (tuples, [((1, 2, 3), 2), ((1, 2), 7)]),
        (unpacking, [([1, 2],)]),
        (new_lists, [(2,), (3,)]),
        (index_error, [([1],), (list(range(9)),)]),
        (uncaught_index_error, [(list(range(9)),)]),
        (named, [(Pair(1, 2),)]),
        (grows_while_iterated, [([1, 2, 3],)]),
    ],
    ids=lambda p: getattr(p, "__name__", ""),
)
def test_sequences(fn, calls):
    check(fn, *calls)


def test_errors_of_lists():
    check(uncaught_index_error, ([1],), breaks=None)
    check(remove_missing, ([2],), breaks=None)


def test_one_list_under_two_names():
    shared = [1]
    check(aliased, (shared, shared), ([1], [2]), (shared, shared))


# ---- dicts


def dict_methods(d):
    d["k"] = 1
    d.update({"u": 2}, w=3)
    d |= {"o": 4}
    got = d.get("a"), d.get("missing"), d.get("missing", 5), d.setdefault("a", 6), d.setdefault("s", [])
    d["s"].append(d.pop("u"))
    return got, d.pop("missing", None), list(d), list(d.items()), len(d), "k" in d, "z" in d, dict(d), d | {"q": 1}


def dict_order(d):
    value = d.pop("a")
    d["a"] = value
    d["b"] = 0
    del d["c"]
    return list(d), list(reversed(d)), d.popitem()


def dict_views(d):
    keys, values, items = d.keys(), d.values(), d.items()
    d["later"] = 1
    return (
        list(keys),
        list(values),
        list(items),
        keys & {"a"},
        keys | {"z"},
        ("later", 1) in items,
        len(values),
        keys == {"a", "later"},
    )


def dict_comprehension(d):
    return {k: v * 2 for k, v in d.items() if v}, {v: k for k, v in d.items()}, {**d, "n": 1}, dict(zip("ab", (1, 2)))


def dict_equal(d, e):
    return d == e, d != e, d == {"a": 1}, {} == d, d is e


def dict_clear(d):
    d.clear()
    d["n"] = 1
    return list(d)


def dict_keys(d):
    return d[1], d[(1, "x")], d[None], 1.0 in d, True in d, d.get((1, "y"))


def dict_missing(d):
    try:
        return d["missing"]
    except KeyError as error:
        return error.args


def dict_changes_size(d):
    for key in d:
        d[key + "x"] = 1


def dict_values_change(d):
    for key in d:
        d[key] += 1
    return sum(d.values())


def ordered(d):
    e = collections.OrderedDict(a=1, b=2)
    e.move_to_end("a")
    d["z"] = e.popitem(last=False)
    d.move_to_end("z", last=False)
    return e, d, d == e, isinstance(d, dict)


def default(d):
    d["x"].append(1)
    d["y"] += [2]
    e = collections.defaultdict(int)
    for c in "abca":
        e[c] += 1
    return e, d["x"], "q" in d


def counted(s):
    c = collections.Counter(s)
    return c["a"], c["zz"], sorted(c.items())


def proxied(d):
    p = types.MappingProxyType(d)
    return p["a"], list(p), p.get("z"), len(p), "a" in p


@pytest.mark.parametrize(
    "fn, calls",
    [
        (dict_methods, [({"a": 1},), ({"a": 1, "b": 2},), ({"b": 1},)]),
        (dict_order, [({"a": 1, "b": 2, "c": 3},), ({"c": 1, "a": 2},)]),
        (dict_views, [({"a": 1},)]),
        (dict_comprehension, [({"a": 1, "b": 0},)]),
        (dict_equal, [({"a": 1}, {"a": 1}), ({"a": 1}, {"b": 1}), ({"a": 1}, {})]),
        (dict_clear, [({"a": 1},)]),
        (dict_keys, [({1: "one", (1, "x"): "two", None: 3},)]),
        (dict_missing, [({"a": 1},), ({"missing": 2},)]),
        (dict_values_change, [({"a": 1, "b": 2},)]),
        (ordered, [(collections.OrderedDict(q=1),)]),
        (default, [(collections.defaultdict(list),), (collections.defaultdict(list, x=[5]),)]),
        (counted, [("abca",)]),
        (proxied, [({"a": 1},)]),
    ],
    ids=lambda p: getattr(p, "__name__", ""),
)
def test_dicts(fn, calls):
    check(fn, *calls)


def test_a_dict_that_changes_while_iterated():
    check(dict_changes_size, ({"a": 1},), breaks=None)


# ---- sets, slices, ranges


def set_methods(s):
    s.add(9)
    s.discard(1)
    s |= {7}
    s.update([8], (6,))
    return (
        s & {7, 9},
        s - {9},
        s ^ {1},
        s | {1},
        s.issubset({1}),
        s >= {7},
        len(s),
        sorted(s),
        9 in s,
        s.isdisjoint({100}),
    )


def set_new(x):
    s = {x, 1, 1.0, True}
    f = frozenset([x, 2])
    return len(s), f, f | {3}, {f: 1}[frozenset([2, x])], {v % 2 for v in range(x)}, set() == frozenset()


def set_remove(s):
    try:
        s.remove("missing")
    except KeyError as error:
        return error.args


def slices(l, i):
    s = slice(1, i)
    return l[s], s.start, s.stop, s.step, s.indices(2), s == slice(1, i), "abcdef"[s], (1, 2, 3)[slice(None, None, -1)]


def ranges(n):
    r = range(1, n, 2)
    return (
        list(r),
        len(r),
        r[1],
        r[-1],
        3 in r,
        r[1:],
        r.start,
        r.step,
        bool(range(0)),
        sum(range(n)),
        list(reversed(r)),
        r == range(1, n, 2),
    )


@pytest.mark.parametrize(
    "fn, calls",
    [
        (set_methods, [({1, 2},), ({5},)]),
        (set_new, [(5,), (2,)]),
        (set_remove, [({1},), ({"missing"},)]),
        (slices, [([1, 2, 3], 2), ([1, 2, 3], None)]),
        (ranges, [(6,), (9,)]),
    ],
    ids=lambda p: getattr(p, "__name__", ""),
)
def test_sets_slices_ranges(fn, calls):
    check(fn, *calls)


# ---- iterators


def iterators(l):
    it = iter(l)
    first = next(it)
    rest = list(it)
    return first, rest, next(it, "done"), next(iter([]), None)


def combined(l):
    return (
        list(zip(l, "abc")),
        [i * v for i, v in enumerate(l, 1)],
        list(map(lambda a, b: a + b, l, l)),
        list(filter(lambda v: v > 1, l)),
        list(filter(None, [0, 1, ""])),
        list(reversed(l)),
        dict(enumerate("xy")),
        list(zip()),
        max(zip(l, l)),
    )


def strict_zip(l):
    try:
        return list(zip(l, [1], strict=True))
    except ValueError as error:
        return str(error)


def sentinel(l):
    return list(iter(l.pop, 1))


def returned_iterators(l):
    it = iter(l)
    next(it)
    e = enumerate("abc")
    next(e)
    return it, e, zip([1], [2]), map(abs, [-1]), reversed(l)


def stop_iteration(l):
    it = iter(l)
    try:
        while True:
            next(it)
    except StopIteration:
        return "stopped"


@pytest.mark.parametrize("fn", [iterators, combined, strict_zip, returned_iterators, stop_iteration])
def test_iterators(fn):
    check(fn, ([1, 2, 3],), ([1],))


def test_iter_with_sentinel():
    check(sentinel, ([1, 2, 3],))


def test_an_empty_tuple_is_told_from_others():
    def iterate(items):
        return [x + 1 for x in items], any(items), list(zip(items, items)), {*items}

    check(iterate, ((),), ((1,),), ((),), ((1, 2),))


def test_ranges_of_large_numbers():
    def f(n):
        big = 2**62 + n
        return len(range(0, 2**63 - 1, 2**63 - 2)), list(range(2**64, 2**64 + 2)), bool(range(-big, big)), n

    check(f, (1,), (2,), breaks=None)


def test_sets_are_not_reversible():
    def f(items):
        return list(reversed(items))

    check(f, (set(),), ({1},), breaks=None)


@pytest.mark.parametrize(
    "use",
    [
        lambda d: d.get("a", 3),
        lambda d: len(d.keys()),
        lambda d: getattr(d, "get")("a", 3),
        lambda d: [item for item in d.items()],
    ],
)
def test_attributes_of_an_ordered_dict_come_before_its_methods(use):
    plain, own = (collections.OrderedDict(a=1) for _ in range(2))
    own.get, own.keys, own.items = (lambda key, default: 42), (lambda: [1, 2, 3]), (lambda: [("b", 7)])
    check(use, (plain,), (own,), (plain,), breaks=None)
    check(use, (own,), (plain,), breaks=None)


def appended_is_found(values, item, wanted):
    values.append(item)
    return wanted in values, values


def appended_is_removed(values, item, wanted):
    values.append(item)
    values.remove(wanted)
    return values


def test_what_was_just_appended_to_a_given_list():
    check(appended_is_found, ([0, 1], 7, 7), ([0, 1], "a", "a"), ([0, 1], 7, 8))
    check(appended_is_removed, ([0, 1], 7, 7), ([0, 1], "a", "a"))


def test_reversed_reads_items_when_their_turn_comes():
    class Counted:
        def __init__(self):
            self.asked = []

        def __len__(self):
            return 4

        def __getitem__(self, index):
            self.asked.append(index)
            if index == 1:
                raise IndexError
            return index * 2

    def changed_while_reversed(n):
        written, grown, shrunk = [1, 2, 3], [1, 2, 3], [1, 2, 3]
        iterators = reversed(written), reversed(grown), reversed(shrunk)
        written[0] = n
        grown.append(n)
        del shrunk[1:]
        counted = Counted()
        first = next(it := reversed(counted))
        asked = list(counted.asked)
        return [list(i) for i in iterators], first, asked, list(it), list(it), counted.asked

    def values_that_change(n):
        d = {"a": 1, "b": 2}
        it = reversed(d.items())
        d["a"] = n
        return list(it), list(reversed(types.MappingProxyType(d)))

    check(changed_while_reversed, (7,))
    check(values_that_change, (7,))


def test_classes_of_views_and_of_their_iterators():
    def names(n):
        d, o = {"a": n}, collections.OrderedDict(a=n)
        made = [reversed(d), reversed(d.values()), reversed(d.items()), iter(d), iter(o), reversed(o), iter(o.items())]
        return [type(x).__name__ for x in [*made, o.keys(), o.values(), o.items(), d.keys()]], o.keys() == d.keys()

    check(names, (1,))


def test_reversed_of_what_is_filled_when_the_graph_has_run():
    def over(n):
        made, known = collections.Counter([n, n]), {"a": n}
        known["b"] = n
        iterators = reversed(made.copy()), reversed(known.items()), reversed([n, 1])
        print(end="")
        return [list(it) for it in iterators]

    check(over, (1,), (2,), breaks=None)


# ---- sets: elements come in the order that CPython's own operations leave them in

SET_OPERATIONS = {
    "union": lambda s, t, b: s | t,
    "intersection": lambda s, t, b: s & t,
    "difference": lambda s, t, b: s - t,
    "symmetric difference": lambda s, t, b: s ^ t,
    "of an iterable": lambda s, t, b: s.symmetric_difference(b),
    "of several": lambda s, t, b: s.union(b, t, [41, 90]),
    "intersection of several": lambda s, t, b: s.intersection(b, t),
    "difference of several": lambda s, t, b: s.difference([3, 8], t),
    "copy": lambda s, t, b: s.copy(),
    "a set of a set": lambda s, t, b: set(s),
    "a frozen set": lambda s, t, b: frozenset(s) | t,
    "a frozen set of a set": lambda s, t, b: frozenset(s),
}
SET_UPDATES = {
    "update": lambda s, t, b: s.update(t, b),
    "intersection_update": lambda s, t, b: s.intersection_update(b),
    "difference_update": lambda s, t, b: s.difference_update(t),
    "symmetric_difference_update": lambda s, t, b: s.symmetric_difference_update(b),
    "with itself": lambda s, t, b: s.difference_update(s),
    "|=": lambda s, t, b: operator.ior(s, t),
    "&=": lambda s, t, b: operator.iand(s, t),
    "-=": lambda s, t, b: operator.isub(s, t),
    "^=": lambda s, t, b: operator.ixor(s, t),
    "^= itself": lambda s, t, b: operator.ixor(s, s),
}


def numbers_for_sets():
    rng = random.Random(3)
    for length in (0, 3, 5, 9, 20) * 3:
        yield (
            [rng.choice([rng.randrange(40), 8 * rng.randrange(10)]) for _ in range(length)],
            [rng.randrange(40) for _ in range(rng.choice([3, 5, 9]))],
        )


@pytest.mark.parametrize("name", [*SET_OPERATIONS, *SET_UPDATES])
def test_order_of_sets(name):
    def run(a, b):
        s, t = set(a), set(b)
        made = SET_OPERATIONS[name](s, t, b) if name in SET_OPERATIONS else SET_UPDATES[name](s, t, b)
        return list(made or ()), list(s), [x for x in t if x not in s], made, s

    for a, b in numbers_for_sets():
        cdynamo.reset()
        assert cdynamo.optimize(run)(a, b) == run(a, b)


@pytest.mark.parametrize("name", SET_OPERATIONS)
def test_order_of_sets_that_are_given(name):
    def run(s, t, b):
        return [x for x in SET_OPERATIONS[name](s, t, b)]

    for a, b in numbers_for_sets():
        cdynamo.reset()
        assert cdynamo.optimize(run)(set(a), set(b), b) == run(set(a), set(b), b)


def test_which_of_equal_elements_stays():
    def run(x):
        ones = {True}
        return (
            ones.intersection([1, 5]), ones & {1, 5}, {1, 5} & ones, ones | {1.0}, {1.0}.union(ones), ones ^ {1, 2},
            {1: 0, 2: 0}.keys() & ones, ones.copy() - {2},
        )  # fmt: skip

    assert repr(cdynamo.optimize(run)(0)) == repr(run(0))


def test_methods_of_sets_refuse_arguments():
    def outcome(call):
        try:
            return call({1, 2})
        except Exception as error:
            return type(error), str(error)

    for call in (
        lambda s: s.symmetric_difference(), lambda s: s.symmetric_difference([1], [2]), lambda s: s.union(3),
        lambda s: s.update([[1]]), lambda s: s.intersection([{1}]), lambda s: s.difference_update(None),
        lambda s: (s.union(iter([3])), s.difference([2])),
    ):  # fmt: skip
        assert outcome(cdynamo.optimize(call)) == outcome(call)


class OtherWay(set):
    def __iter__(self):
        return iter("other")


def test_a_set_of_an_instance_of_a_subclass_has_what_it_holds():
    def run(numbers, live):
        made = OtherWay(numbers)
        return (
            set(made),
            set(live),
            frozenset(made),
            made.copy() == set(made),
            {5} | made,
            {5}.union(live),
            {*made},
            sorted(live),
        )

    assert cdynamo.optimize(run)([3, 1, 2], OtherWay([7, 8])) == run([3, 1, 2], OtherWay([7, 8]))
