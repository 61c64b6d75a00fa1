"""Objects of the standard library that captured code makes, and functions of C that call it back."""

from __future__ import annotations

import bisect
import copy
import datetime
import enum
import hashlib
import heapq
import math
import operator
import os
import re
import sys
import threading
import types

import pytest
from values_check import check

import cdynamo


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def what_the_process_says():
    return sys.getrecursionlimit(), sys.getdefaultencoding(), sys.getfilesystemencoding(), os.getpid()


def test_what_the_process_says():
    check(what_the_process_says)
    compiled, before = cdynamo.optimize(lambda: sys.getrecursionlimit() // 2), sys.getrecursionlimit()
    try:
        for limit in (before, before + 100, before + 301):
            sys.setrecursionlimit(limit)
            assert compiled() == limit // 2
    finally:
        sys.setrecursionlimit(before)


def test_a_thread_is_asked_for_its_own_number():
    numbers = []
    compiled = cdynamo.optimize(lambda: threading.get_ident())
    threads = [threading.Thread(target=lambda: numbers.append((compiled(), threading.get_ident()))) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    assert compiled() == threading.get_ident() and len(numbers) == 3
    assert all(asked == plain for asked, plain in numbers)


class Base:
    pass


class First(Base):
    pass


class Second(Base):
    pass


class Rounded:
    def __init__(self, value):
        self.value = value

    def __floor__(self):
        return "floor", self.value

    def __ceil__(self):
        return "ceil", self.value

    def __trunc__(self):
        return "trunc", self.value


class Hinted:
    def __init__(self, hint):
        self.hint = hint

    def __length_hint__(self):
        return self.hint


class Copied:
    def __init__(self, value):
        self.value = value

    def __copy__(self):
        return Copied(("copied", self.value))

    def __deepcopy__(self, memo):
        return Copied(("deep", copy.deepcopy(self.value, memo)))


def returned_by_generators(n):
    def generator():
        received = yield n
        return n, received

    iterator = generator()
    log = [next(iterator)]
    for step in (next, next, lambda it: it.send(None)):
        try:
            step(iterator)
        except StopIteration as stop:
            log.append((stop.value, stop.args))

    def delegating():
        first = yield from iterator
        second = yield from generator()
        return first, second

    ended = generator()
    for value in ended:
        log.append(value)
    try:
        next(ended)
    except StopIteration as stop:
        log.append(stop.value)
    outer = delegating()
    next(outer)
    try:
        outer.send(5)
    except StopIteration as stop:
        return log, stop.value


def stop_of_a_users_iterator(n):
    class Stops:
        def __iter__(self):
            return self

        def __next__(self):
            raise StopIteration(n, "end")

    try:
        next(Stops())
    except StopIteration as stop:
        return stop.args, next(Stops(), "default"), list(Stops())


def matches(n):
    pattern = re.compile(r"(\w)(\d*)")
    found = [(match.group(), match.span()) for match in pattern.finditer("a1 b22", 1)]
    iterator = re.finditer("x*", "axxb")
    first = next(iterator).span()
    return found, first, [match.span() for match in iterator], iter(iterator) is iterator


def substituted(n):
    def doubled(match):
        return str(int(match.group()) * 2)

    log = [
        re.sub(r"\d+", doubled, "a1b22c"),
        re.sub(r"\d", doubled, "123", count=2),
        re.subn("x*", lambda match: "-", "axb"),
        re.compile("b").sub(repl=lambda match: None, string="abc"),
        re.compile(b"b").sub(lambda match: match.group() * n, b"abc"),
        re.sub("(?P<name>a)", r"<\g<name>>", "banana"),
    ]
    try:
        re.sub("a", lambda match: 3, "a")
    except TypeError as error:
        log.append(str(error))
    return log


def hashes(n):
    made = hashlib.sha256(b"a")
    made.update(str(n).encode())
    other = made.copy()
    other.update(b"more")
    return (
        made.hexdigest(),
        other.hexdigest(),
        hashlib.md5(b"x").digest(),
        made.digest_size,
        hashlib.new("sha1", b"q").name,
    )


def growing_bytearray(n):
    data, seen = bytearray(b"abc"), []
    for value in data:
        seen.append(value)
        if len(data) < 6:
            data.append(value + n)
    shrinking = bytearray(b"abcdef")
    for value in shrinking:
        seen.append(value)
        shrinking.pop()
    iterator = iter(data)
    next(iterator)
    return data, seen, shrinking, iterator, [*map(chr, bytearray(b"xy"))]


def namespaces(n):
    made = types.SimpleNamespace(a=1, b=[n])
    same, other = types.SimpleNamespace(a=1, b=[n]), types.SimpleNamespace(a=1)
    return made == same, made != same, made == other, made == 3, repr(made), str(other), repr(types.SimpleNamespace())


def numbers_of_an_enum(n):
    return (
        [Level.HIGH + n, n + Level.HIGH, Level.HIGH * n, n - Level.LOW, Level.LOW - n, [0] * Level.HIGH],
        [Level.HIGH < n, n < Level.HIGH, Level.HIGH == n - 1, n in (Level.LOW, Level.HIGH)],
    )


def classes(n):
    return Base.__subclasses__(), First.__subclasses__(), [cls.__name__ for cls in Second.mro()], int.mro()


def heaps(n):
    values = [3, 1, 2, n, 5]
    by_key = heapq.nsmallest(3, values, key=lambda value: -value), heapq.nlargest(2, values, key=lambda value: -value)
    merged = list(heapq.merge([5, 3, 1], [4, n - 1], reverse=True))
    return by_key, heapq.nsmallest(2, values), merged


def bisected(n):
    pairs = [(1, "a"), (3, "b"), (3, "c"), (9, "d")]
    found = [
        bisect.bisect(pairs, n, key=lambda pair: pair[0]),
        bisect.bisect_left(pairs, 3, key=operator.itemgetter(0)),
    ]
    bisect.insort(pairs, (n, "new"), key=lambda pair: pair[0])
    return found, pairs, bisect.bisect_right([1, 2, 2], 2), bisect.bisect_left([1, 2], 2, 0, 1)


def asks_the_object(n):
    value = Rounded(n)
    hints = [operator.length_hint(part, 7) for part in (Hinted(n), Hinted(NotImplemented), [1, 2], n)]
    return math.floor(value), math.ceil(value), math.trunc(value), math.floor(2.5), hints


def copied_by_the_class(n):
    shared = [n]
    deep = copy.deepcopy([Copied(shared), shared, Copied(Copied(shared))])
    return copy.copy(Copied(n)).value, deep, deep[0].value[1] is deep[1], deep[2].value[1].value[1] is deep[1]


def texts_of_changing_numbers(n):
    return f"{n:>{n}}", f"{'a':*>{n + 2}}", sys.intern(f"name{n}"), datetime.timezone.utc.utcoffset(None)


def dates(n):
    made = datetime.datetime(2024, 1, 31, 12, tzinfo=datetime.timezone.utc) + datetime.timedelta(days=n)
    return made, made.isoformat(), datetime.time(1, n).isoformat(), made.tzinfo is datetime.timezone.utc


def errors_of_calls(n):
    def function(a, b, /, c, *, d, e=1):
        return a

    log = []
    for call in (
        lambda: function(),
        lambda: function(1, 2, 3),
        lambda: function(1, 2, 3, 4, d=1),
        lambda: function(1, 2, c=3, d=1, f=2),
        lambda: function(1, b=2, c=3, d=1),
        lambda: function(1, 2, 3, c=3, d=1),
        lambda: First(n),
        lambda: Rounded(),
        lambda: (lambda x: x)(),
        lambda: sorted([1], key=lambda: 0),
    ):
        try:
            log.append(call())
        except TypeError as error:
            log.append(str(error))
    return log


def errors_of_the_system(n):
    log = []
    for args in ((2, "no"), (13, "denied", "file"), (n, "other"), ("text",), (), (1, "a", "b", None, "c")):
        try:
            raise OSError(*args)
        except FileNotFoundError as error:
            log.append(("missing", error.errno, error.strerror, error.filename))
        except OSError as error:
            log.append((type(error).__name__, error.errno, error.strerror, error.filename, error.args, str(error)))
    return log, FileNotFoundError(2, "none", "name")


class Detailed(Exception):
    def __init__(self, *args, extra=None):
        super().__init__(*args)
        self.extra = extra


class Tagged(Exception):
    def __new__(cls, *args):
        self = super().__new__(cls, *args)
        self.tag = len(args)
        return self


def errors_of_users(n):
    log = []
    for make in (lambda: Detailed("m", n, extra="x"), lambda: Tagged(n, 2), lambda: Tagged()):
        try:
            raise make()
        except Detailed as error:
            log.append((error.args, error.extra, str(error), repr(error)))
        except Tagged as error:
            log.append((error.args, error.tag, str(error), repr(error)))
    return log


def leaving_the_program(n):
    log = []
    for args in ((), (n,), (None,), ((1, 2),), ("text",)):
        try:
            sys.exit(*args)
        except SystemExit as error:
            log.append((error.code, error.args))
    return log


@pytest.mark.parametrize(
    "fn",
    [
        returned_by_generators,
        stop_of_a_users_iterator,
        matches,
        substituted,
        hashes,
        growing_bytearray,
        namespaces,
        numbers_of_an_enum,
        classes,
        heaps,
        bisected,
        asks_the_object,
        copied_by_the_class,
        texts_of_changing_numbers,
        dates,
        errors_of_calls,
        errors_of_the_system,
        errors_of_users,
        leaving_the_program,
    ],
    ids=lambda fn: fn.__name__,
)
def test_captured_whole(fn):
    check(fn, (3,), (4,))


def test_a_new_subclass_is_seen():
    class Root:
        pass

    def names(n):
        return [cls.__name__ for cls in Root.__subclasses__()]

    compiled = cdynamo.optimize(names, fullgraph=True)
    assert compiled(1) == []
    made = type("Later", (Root,), {})
    assert compiled(1) == [made.__name__]
    another = type("Another", (Root,), {})
    assert compiled(1) == [made.__name__, another.__name__]


def test_an_iterator_of_matches_goes_on_across_a_graph_break():
    def spans(n):
        iterator = re.finditer(r"\d", "1 2 3")
        first = next(iterator).group()
        cdynamo.graph_break()
        return first, [match.group() for match in iterator], type(re.finditer("a", "a")).__name__

    check(spans, (3,), (4,), breaks=None)


def test_a_hash_that_outlives_the_graph_is_pythons():
    def kept(n):
        made = hashlib.sha256(b"a")
        cdynamo.graph_break()
        made.update(b"b")
        return made.hexdigest(), n

    check(kept, (3,), (4,), breaks=None)
