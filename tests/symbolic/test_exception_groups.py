"""Exception groups and except* in captured code."""

from __future__ import annotations

import pytest
from values_check import check


def group():
    return ExceptionGroup("outer", [ValueError(1), TypeError(2), ExceptionGroup("inner", [ValueError(3), KeyError(4)])])


def clauses(n):
    found = []
    try:
        raise group()
    except* ValueError as error:
        found.append(("value", error.message, [type(part).__name__ for part in error.exceptions]))
    except* (TypeError, KeyError) as error:
        found.append(("other", len(error.exceptions), error.exceptions[0].args))
    return found, n


def nothing_raised(n):
    try:
        n += 1
    except* ValueError:
        n += 10
    return n


def naked(n):
    found = []
    try:
        raise ValueError(n)
    except* ValueError as error:
        found.append((type(error).__name__, error.message, error.exceptions[0].args))
    return found


def rest(n):
    try:
        try:
            raise group()
        except* ValueError:
            n += 1
    except ExceptionGroup as left:
        parts = [type(part).__name__ for part in left.exceptions]
        return n, left.message, parts, [type(part).__name__ for part in left.exceptions[1].exceptions]


def unmatched(n):
    try:
        try:
            raise ValueError(n)
        except* TypeError:
            n += 1
    except ValueError as error:
        return n, error.args


def raised_again(n):
    try:
        try:
            raise group()
        except* ValueError:
            raise
        except* KeyError as error:
            raise RuntimeError(len(error.exceptions)) from None
    except BaseExceptionGroup as left:
        return left.message, [(type(part).__name__, getattr(part, "message", None)) for part in left.exceptions]


def split(n):
    whole = group()
    values, others = whole.split(ValueError)
    some = whole.subgroup(lambda part: getattr(part, "args", ())[:1] == (4,))
    derived = whole.derive([KeyError(n)])
    none = whole.split(OSError)[0], whole.subgroup((MemoryError,))
    shown = [(g.message, len(g.exceptions)) for g in (values, others, some, derived)]
    return shown, none, type(BaseExceptionGroup("b", [ValueError()])).__name__, isinstance(whole, Exception), str(whole)


def everything(n):
    try:
        raise group()
    except* Exception as error:
        return_value = error.message, len(error.exceptions)
    return return_value


@pytest.mark.parametrize(
    "fn",
    [clauses, nothing_raised, naked, rest, unmatched, raised_again, split, everything],
    ids=lambda fn: fn.__name__,
)
def test_groups(fn):
    check(fn, (3,), (4,))


def test_what_is_refused_is_pythons():
    def of_group(n):
        try:
            raise group()
        except* ExceptionGroup:
            n += 1
        return n

    def uncaught(n):
        try:
            raise group()
        except* ValueError:
            n += 1
        return n

    def nested_base(n):
        try:
            raise ExceptionGroup("m", [n])
        except TypeError as error:
            return str(error)

    for fn in (of_group, uncaught, nested_base):
        check(fn, (3,), breaks=None)
