"""str.format, format_map and % of objects whose classes say in Python how they are shown."""

from __future__ import annotations

import abc
import collections

import pytest
from values_check import check


class Shown:
    def __init__(self, n):
        self.n = n
        self.parts = [n, {"k": "v", 3: n}]

    def __repr__(self):
        return f"Shown({self.n!r})"

    def __str__(self):
        return f"<{self.n}>"

    def __format__(self, specification):
        return f"{self.n}:{specification}"


class Plain:
    def __init__(self, n):
        self.n = n

    def __str__(self):
        return f"plain {self.n} é"

    __repr__ = __str__


class Names(dict):
    def __missing__(self, name):
        return Shown(name)


Pair = collections.namedtuple("Pair", "a b")


def fields(n):
    shown, plain = Shown(n), Plain(n)
    return [
        "{} {}".format(shown, 3),
        "{0} {1:>5} {0:x}".format(shown, 2.5),
        "{0.n} {0.parts[0]} {0.parts[1][k]} {0.parts[1][3]}".format(shown),
        "{!r:>12}|{!s}|{!a}".format(shown, shown, plain),
        "{a:{w}.{p}f}{{}}{b}".format(a=3.14159, w=8, p=2, b=plain),
        "{:{}{}}".format("x", "*^", 7) + "{:{}}".format(shown, "wide"),
        "no fields".format(shown),  # noqa: F523
        "{a} {b}".format_map({"a": shown, "b": [plain]}),
        "{a} {b}".format_map(Names(a=plain)),
        "{}{}{}".format([shown], {"k": plain}, (shown,)),
    ]


def percents(n):
    template, one = "%s %r %a|%%|%s", "%s"
    return template % (Shown(n), Shown(n), Plain(n), [Plain(n)]), one % Shown(n), one % [Shown(n)], one % ((Shown(n),),)


def named_tuples(n):
    pair = Pair(Shown(n), [Plain(n)])
    return repr(pair), str(pair), f"{pair}"


def errors(n):
    found = []
    for text in ("{} {}", "{1}", "{name}", "{0.missing}", "{0[0]}", "{", "}", "{0} {}", "{!x}", "{0!r:d}"):
        try:
            found.append(text.format(Shown(n)))
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    for text in ("%d", "%s %s", "%(a)s", "%", "%5s", "%.1f"):
        try:
            found.append(text % Plain(n))
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found


class Base(abc.ABC):
    @abc.abstractmethod
    def one(self): ...

    @property
    @abc.abstractmethod
    def two(self): ...


class Half(Base):
    def one(self):
        return 1


def abstract_classes(n):
    class Made(abc.ABC):
        @abc.abstractmethod
        def method(self): ...

    class Whole(Made):
        def method(self):
            return n

    found = [Whole().method()]
    for cls in (Base, Half, Made):
        try:
            cls()
        except TypeError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("fn", [fields, percents, named_tuples, abstract_classes])
def test_texts(fn):
    check(fn, (1,), ("x",), (2.5,))


def test_errors_are_pythons():
    check(errors, (1,), ("x",), breaks=None)
