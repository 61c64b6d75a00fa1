"""Builtin functions, numbers, strings, itertools."""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
import operator
import sys
import types

import pytest
from saying import shout
from values_check import check

import cdynamo


def numbers(x):
    return x + 1, x - 2, x * 3, x / 2, x // 2, x % 3, x**2, x << 1, x >> 1, x & 3, x | 8, x ^ 1, -x, ~x, +x, 2 - x, 7 // x, 7 % x, 2**x, abs(-x), divmod(7, x), pow(x, 2), pow(x, 2, 5), round(2.567, 2), round(x), x.real, x.bit_length(), int(x), float(x), complex(x), bool(x), x == 3, x != 3, x < 4, x >= 3, 1 < x < 5, not x, x is None, hash(x) == hash(float(x)), max(x, 1, 2), min([x, 4]), max([], default=x), min("bca"), sum([x, 1.5]), sum([[x]], [])  # fmt: skip


def conversions(x):
    return int("12", 3), int(3.7), float("2.5"), float("nan") != float("nan"), str(x), str(1.0), repr("a'"), bool([]), bool("a"), tuple("ab"), list((x,)), set("aa"), dict([(1, x)]), bytes([x]), hex(255), oct(8), bin(5), chr(65), ord("a"), ascii("é"), complex("1+2j"), int(True), frozenset((x,)), slice(x), range(x), str(b"a", "ascii"), str([x, "s"]), str({"k": x}), repr((x,))  # fmt: skip


def texts(s, x):
    return f"{s!r:>8}|{x:05.2f}|{s}|{x!s}|{[x]}", s.upper(), s.split("b"), ",".join([s, "x"]), ",".join(c for c in s), "%s-%d" % (s, x), "%r" % s, "{} {n}".format(s, n=x), s[0], s[::-1], "b" in s, s + "x", s * 2, s.replace("a", "z"), s.startswith(("a", "x")), s.find("c"), s.strip("a"), [c for c in s], len(s), s < "b", s == "abc", s.encode(), s.isalpha(), "a" "b", s.partition("b"), s.title().swapcase(), "abc".join("12"), s.zfill(5), sorted(s, reverse=True)  # fmt: skip


def introspection(x):
    return isinstance(x, (int, str)), isinstance(x, int | str), issubclass(bool, int), type(x) is int, callable(len), callable(x), hasattr(x, "real"), getattr(x, "no", "default"), type(None), isinstance(None, type(None)), int.__name__, type(x).__name__, type([]) is list, x.__class__ is int, hash("a") == hash("a")  # fmt: skip


def quantifiers(l):
    return (
        any(l),
        all(l),
        any([]),
        all([]),
        any(v > 2 for v in l),
        all(isinstance(v, int) for v in l),
        sum(l),
        max(l),
        min(l, key=lambda v: -v),
        max(l, key=lambda v: v % 2),
        sorted(l),
        len(l),
    )


def unbound(l):
    list.append(l, 9)
    d = {}
    dict.__setitem__(d, "a", 1)
    return (
        l,
        str.upper("a"),
        int.__add__(1, 2),
        list.__len__(l),
        d,
        dict.get(d, "a"),
        object.__eq__(d, d),
        tuple.__getitem__((1, 2), 0),
    )


def several_itertools(l):
    return (
        list(itertools.chain(l, (1,))), list(itertools.chain.from_iterable([l, l])), list(itertools.product(l, "ab")),
        list(itertools.product([0, 1], repeat=2)), list(itertools.islice(itertools.count(3, 2), 3)), list(itertools.islice(l, 1, None)),
        list(itertools.accumulate(l)), list(itertools.accumulate(l, max, initial=0)), list(itertools.repeat(7, 2)),
        list(itertools.starmap(pow, [(2, 3)])), list(itertools.zip_longest(l, [1], fillvalue="f")), list(itertools.takewhile(lambda v: v < 3, l)),
        list(itertools.dropwhile(lambda v: v < 2, l)), list(itertools.pairwise(l)), list(itertools.permutations(l, 2)),
        list(itertools.combinations("abc", 2)), [(k, list(g)) for k, g in itertools.groupby([1, 1, 2])], list(itertools.compress(l, [1, 0, 1])),
        list(itertools.filterfalse(None, [0, 1])), [list(t) for t in itertools.tee(l)], list(itertools.islice(itertools.cycle(l), 5)),
        list(zip(itertools.repeat("r"), l)),
    )  # fmt: skip


def errors(kind):
    try:
        if kind == 0:
            return 1 // kind
        if kind == 1:
            return [].pop()
        if kind == 2:
            return int("x")
        if kind == 3:
            return "a" + kind
        if kind == 4:
            return {}["k"]
        if kind == 5:
            return None.attribute
        if kind == 6:
            return len(kind)
        if kind == 7:
            a, b = [1, 2, 3]
        if kind == 8:
            return next(iter([]))
        if kind == 9:
            return [1] < ["a"]
        if kind == 10:
            return {[]: 1}
        if kind == 11:
            return max([])
        if kind == 12:
            return kind()
        if kind == 13:
            return kind[0]
        if kind == 14:
            return iter(kind)
        if kind == 15:
            return dict([1])
        if kind == 16:
            return (1, 2)[5]
        if kind == 17:
            return "abc".index("z")
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize(
    "fn, calls",
    [
        (numbers, [(3,), (2,), (5,)]),
        (conversions, [(3,), (1,)]),
        (texts, [("abc", 3), ("b", 1)]),
        (introspection, [(3,), ("s",), (None,)]),
        (quantifiers, [([1, 2, 3],), ([0, 5],)]),
        (unbound, [([1, 2],)]),
        (several_itertools, [([1, 2, 3],)]),
    ],
    ids=lambda p: getattr(p, "__name__", ""),
)
def test_builtins(fn, calls):
    check(fn, *calls)


@pytest.mark.parametrize("kind", range(18))
def test_errors_have_pythons_words(kind):
    check(errors, (kind,))


def changing_numbers(n, factor):
    return (
        n * 2 + 1,
        n > 2,
        [n] * 2,
        factor * 2,
        f"{n} {factor}",
        list(range(n)),
        n == 4,
        -factor,
        factor > 1.5,
        n / 2,
        n - factor,
    )


def test_numbers_that_change_from_call_to_call():
    check(changing_numbers, *[(n, n / 2) for n in range(1, 7)])


def test_floats_are_told_apart_bit_by_bit():
    def sign(x):
        return str(x), x == 0

    check(sign, (0.0,), (-0.0,), (0.0,), (float("nan"),), (1e300,))


def test_bool_int_and_float_are_told_apart():
    def kind(x):
        return type(x).__name__, [x]

    check(kind, (1,), (True,), (1.0,), ("1",), (None,))


def prints(x):
    x.append(1)
    shout("effect")
    x.append(2)
    return x


def test_print_breaks_and_effects_happen_once(capsys):
    import cdynamo

    cdynamo.config.keep_empty_graphs = True
    compiled = cdynamo.optimize(prints)
    assert compiled([0]) == [0, 1, 2]
    assert compiled([0]) == [0, 1, 2]
    assert capsys.readouterr().out == "effect\n" * 2


class Named:
    def both(*args, **names):
        return args[1:], names


def test_methodcaller_with_keywords():
    def f(o):
        return operator.methodcaller("both", 1, self="eggs")(o), operator.methodcaller("both", 1, 2)(o)

    check(f, (Named(),), breaks=None)


def test_functions_in_c_that_write_to_their_arguments():
    def f(items, more):
        bisect.insort(items, 3)
        operator.setitem(more, 0, 7)
        operator.delitem(more, 1)
        return operator.iconcat(more, [1]), operator.countOf(more, 1)

    check(f, ([1, 2, 4], [5, 6]), breaks=None)


def test_locals():
    def f(x):
        y = x + 1
        shout(end="")
        z = locals()
        return sorted(z.items()), y

    check(f, (1,), breaks=None)


def test_traceback_of_a_caught_exception():
    def f(x):
        try:
            [][x]
        except IndexError as error:
            return error.__traceback__ is not None, error.__traceback__.tb_next is None

    check(f, (1,), breaks=None)


class Sequence:
    def __init__(self, n):
        self.n, self.asked = n, []

    def __getitem__(self, i):
        self.asked.append(i)
        if i < self.n:
            return i
        raise IndexError


def test_iterator_over_getitem_that_is_used_up():
    def f(n):
        s = Sequence(n)
        it = iter(s)
        first = list(it)
        shout(end="")
        return first, list(it), s.asked

    check(f, (3,), breaks=None)


class Odd:
    __match_args__ = ("a", 1)
    a = 5


class Twice:
    __match_args__ = ("a", "a")
    a = 5


def test_patterns_that_python_refuses():
    def odd(o):
        match o:
            case Odd(x, y):
                return x, y

    def twice(o):
        match o:
            case Twice(x, y):
                return x, y

    def keyword(o):
        match o:
            case Twice(x, a=y):
                return x, y

    for function, subject in ((odd, Odd()), (twice, Twice()), (keyword, Twice())):
        check(function, (subject,), breaks=None)


@functools.lru_cache
def remembered(n):
    return [n]


@functools.lru_cache
def doubled(n):
    return 2 * n


def test_lru_cache_gives_the_object_it_holds():
    def f(n):
        return remembered(n) is remembered(n), doubled(n), "%d" % n, b"%%" % ()

    check(f, (1,), (2,), breaks=None)


class Number(int):
    pass


class Real(float):
    pass


class Text(str):
    def __str__(self):
        return "text"


def test_instances_of_subclasses_of_numbers_and_text_compare_by_value():
    def program(x):
        a, b = Number(x), Number(x)
        return (a == b, a != b, a < Number(x + 1), a in [b], {a: 1}[b], a + b, a % Number(3), x == a)

    check(program, (5,), (6,))

    def others(x):
        return (
            Real(x) == Real(x),
            Text("ab") == Text("ab"),
            Text("a") + Text("b"),
            "%s" % Text("a"),
            [Real(x)].index(Real(x)),
        )

    check(others, (2.5,), (0.0,), breaks=None)


def test_lists_that_change_while_they_are_compared():
    def program(which):
        class Clears:
            def __init__(self, other):
                self.other = other

            def __eq__(self, _):
                self.other.clear()
                return NotImplemented

        a, b = [], []
        a.append(Clears(b if which else a))
        b.append(Clears(a) if which else 1)
        return a == b, a, b

    check(program, (0,), (1,), breaks=None)

    def finds(what):
        class Clears:
            def __eq__(self, _):
                items.clear()
                return False

        items = [Clears(), 2, 3]
        return what in items, items.count(what), items

    check(finds, (3,), breaks=None)


def test_keywords_that_a_builtin_base_does_not_take():
    class Pair(tuple):
        pass

    def program():
        return Pair(sequence=())

    check(program, breaks=None)


def test_dict_of_a_mapping_with_an_order_of_its_own():
    class Backward(dict):
        def keys(self):
            return reversed(list(dict.keys(self)))

        __iter__ = keys

    def program():
        return dict(Backward([("a", 1), ("b", 2)]))

    check(program)


def test_sets_are_rebuilt_in_their_order():
    def program(text):
        made = set(text)
        return list(made), made

    for text in ("gallahad", "the quick brown fox", "0123456789abcdef"):
        cdynamo.reset()
        listed, made = cdynamo.optimize(program)(text)
        assert listed == list(made) == list(set(text))


def test_a_set_that_changes_size_while_it_is_iterated():
    def program(items):
        seen = set(items)
        for item in seen:
            seen.add(item + 100)
        return seen

    check(program, ([1, 2],), ([],), breaks=1)  # where the loop raises


def test_frozensets_and_slices_are_their_own_copies():
    import copy

    def program():
        frozen, part = frozenset([1, 2]), slice([1], [2])
        return (
            frozenset(frozen) is frozen,
            frozen.copy() is frozen,
            copy.copy(frozen) is frozen,
            copy.copy(part) is part,
        )

    check(program)


def test_conversions_that_give_another_type():
    class Subclass(int):
        pass

    class Odd:
        def __int__(self):
            return Subclass(3)

        def __index__(self):
            return 7

    def program():
        return float(Odd()), int(Odd())

    with pytest.warns(DeprecationWarning):
        check(program, breaks=None)


def test_ints_that_leave_64_bits():
    def program(n, m):
        return n * n * n * n * n, n - 2**62 - 2**62, (n * n * n) % 7, n << 3, -n, n // m, n % m, n - m

    sizes = [3, 4, -5, 100_000, 2**31, 2**53, 2**53 + 1, 2**62, -(2**63), 2**63 - 1, 2**64, 7]
    check(program, *[(n, m) for n in sizes for m in (3, -2, 2**62, -(2**63))])


def test_ranges_that_leave_64_bits():
    def program(start, stop, step):
        numbers = range(start, stop, step)
        return len(range(2)), [n for n, _ in zip(reversed(numbers), range(2))]

    check(program, (0, 10, 3), (-(2**40), 2**63 - 1, 2**60), (2**70, 2**70 + 5, 2), (-4, -(2**63), 1), breaks=None)


def test_methods_made_by_hand_and_exit_stacks():
    class Held:
        def __init__(self):
            self.log = []

        def note(self, *words):
            self.log.append(words)
            return len(self.log)

    held = Held()

    def program():
        method = types.MethodType(lambda self, word: self.note(word), held)
        with contextlib.ExitStack() as stack:
            stack.callback(held.note, "callback")
            stack.push(lambda *error: held.note("push") and False)
            method("inside")
        return (
            held.log[-3:],
            sys.exception() if hasattr(sys, "exception") else None,
            sys.exc_info(),
            method.__self__ is held,
        )

    check(program)


def test_what_is_repeated_as_often_as_a_number_says_that_changes():
    def program(x):
        try:
            return x + 1, "ab" * x, x * b"c", [1] * x, (2,) * x
        except TypeError as error:
            return str(error)

    check(program, (2,), (3,), (4,), (0,), breaks=None)
