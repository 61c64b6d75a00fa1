"""Exception groups and except* in captured code."""

from __future__ import annotations

import pytest
from values_check import check

import cdynamo


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


def shown(error):
    """What is seen of an exception, its parts included."""
    if error is None:
        return None
    parts = [shown(part) for part in error.exceptions] if isinstance(error, BaseExceptionGroup) else error.args
    flags = type(error.__cause__).__name__, type(error.__context__).__name__, error.__suppress_context__
    return type(error).__name__, str(error), flags, parts


def causes(n):
    try:
        try:
            raise group() from KeyError("cause")
        except* ValueError as error:
            of_clause = shown(error.__cause__), shown(error)
            raise RuntimeError("r") from error
        except* KeyError:
            raise KeyError("again")
    except ExceptionGroup as left:
        return of_clause, shown(left), [shown(part.__context__) for part in left.exceptions]


def contexts(n):
    try:
        try:
            raise KeyError(0)
        except KeyError:
            raise group()
    except* ValueError as error:
        first = shown(error.__context__), error.__cause__
    except* Exception as error:
        second = shown(error.__context__)
    return first, second


def naked_raised_again(n):
    try:
        try:
            raise ValueError(n)
        except* ValueError:
            raise
    except ExceptionGroup as left:
        return shown(left)


def raised_by_name(n):
    try:
        try:
            raise group()
        except* ValueError as error:
            raise error
        except* TypeError:
            raise
    except ExceptionGroup as left:
        return shown(left)


def nested_clauses(n):
    log = []
    try:
        try:
            raise group()
        except* ValueError as error:
            log.append(shown(error))
            try:
                raise ExceptionGroup("n", [OSError(n), KeyError(2)])
            except* KeyError as inner:
                log.append(shown(inner))
    except* OSError as error:
        log.append(shown(error))
    except* (TypeError, KeyError) as error:
        log.append(shown(error))
    return log


def in_a_loop(n):
    log = []
    for i in range(4):
        try:
            if i == 1:
                raise ExceptionGroup("g", [ValueError(i)])
            if i == 2:
                raise KeyError(i)
            log.append(i)
        except* ValueError as error:
            log.append(("value", shown(error)))
        except* KeyError as error:
            log.append(("key", shown(error)))
        else:
            log.append("else")
        finally:
            log.append("finally")
    return log


def in_a_generator(n):
    log = []

    def generator():
        try:
            yield 1
        except* ValueError as error:
            log.append(shown(error))
            yield 2

    iterator = generator()
    next(iterator)
    return iterator.throw(ExceptionGroup("t", [ValueError(n)])), log, list(iterator)


def base_exceptions(n):
    try:
        try:
            raise BaseExceptionGroup("b", [KeyboardInterrupt(), ValueError(1)])
        except* ValueError as error:
            found = type(error).__name__
    except BaseExceptionGroup as left:
        return found, shown(left)


class Derived(ExceptionGroup):
    def derive(self, excs):
        return Derived(self.message, excs)


class WithCode(ExceptionGroup):
    def __new__(cls, errors, code):
        self = super().__new__(cls, f"code {code}", errors)
        self.code = code
        return self

    def derive(self, excs):
        return WithCode(excs, self.code)


class Plain(ExceptionGroup):
    pass


def of_users(n):
    log = []
    for made in (
        Derived("d", [ValueError(1), KeyError(2), Derived("in", [OSError(3), ValueError(4)])]),
        WithCode([ValueError(1), KeyError(2)], n),
        Plain("p", [ValueError(1), KeyError(2)]),
    ):
        try:
            try:
                raise made
            except* ValueError as error:
                log.append((shown(error), getattr(error, "code", None)))
        except ExceptionGroup as left:
            log.append((shown(left), len(left.args)))
    return log


def notes(n):
    whole = group()
    whole.add_note("one")
    part, rest = whole.split(ValueError)
    part.add_note(f"{n}")
    error = ValueError()
    try:
        error.add_note(n)
    except TypeError as refused:
        return part.__notes__, rest.__notes__, whole.__notes__, hasattr(error, "__notes__"), str(refused)


def kept_apart_from_arguments(n):
    listed = [ValueError(2)]
    whole = ExceptionGroup("l", listed)
    listed.append(1)
    of_tuple = ExceptionGroup("t", (ValueError(n),))
    return whole, len(whole.exceptions), len(whole.args[1]), type(of_tuple.args[1]).__name__, of_tuple


def refused(n):
    log = []
    for args in (("m", []), ("m", [3]), (3, [ValueError()]), ("m", 3), ("m", [KeyboardInterrupt()]), ("m",)):
        for kind in (ExceptionGroup, BaseExceptionGroup, Plain):
            try:
                log.append(type(kind(*args)).__name__)
            except (TypeError, ValueError) as error:
                log.append((type(error).__name__, str(error)))
    for classes in (
        3,
        ExceptionGroup,
        (ValueError, 3),
        (ExceptionGroup,),
        (ExceptionGroup, 3),
        (ValueError, (KeyError,)),
    ):
        try:
            try:
                raise ValueError(n)
            except* classes:
                log.append("caught")
        except TypeError as error:
            log.append(str(error))
        try:
            raise ValueError(n)
        except ValueError:
            log.append("plain")
    return log


def by_function(n):
    whole = group()
    third = whole.subgroup(lambda part: isinstance(part, ValueError) and part.args[0] == 3)
    return shown(third), whole.subgroup(lambda part: False), whole.subgroup(lambda part: True) is whole


def of_what_was_collected(n):
    def collect(functions):
        errors = []
        for function in functions:
            try:
                function()
            except Exception as error:
                errors.append(error)
        raise ExceptionGroup("many", errors)

    try:
        collect([lambda: int("x"), lambda: {}[n], lambda: [][n]])
    except* ValueError as error:
        values = len(error.exceptions)
    except* LookupError as error:
        keys = [part.args for part in error.exceptions]
    return values, keys


MORE = [
    causes,
    contexts,
    naked_raised_again,
    raised_by_name,
    nested_clauses,
    in_a_loop,
    in_a_generator,
    base_exceptions,
    of_users,
    notes,
    kept_apart_from_arguments,
    refused,
    by_function,
    of_what_was_collected,
]


@pytest.mark.parametrize(
    "fn",
    [clauses, nothing_raised, naked, rest, unmatched, raised_again, split, everything, *MORE],
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


def break_in_body(n):
    try:
        cdynamo.graph_break()
        raise group()
    except* ValueError as error:
        first = shown(error)
    except* Exception as error:
        n += 1
        second = shown(error)
    return first, second, n


def break_in_clause(n):
    try:
        try:
            n += 1
            raise group()
        except* ValueError as error:
            cdynamo.graph_break()
            found = shown(error)
        except* KeyError as error:
            raise RuntimeError(n) from error
    except ExceptionGroup as left:
        return found, shown(left)


def break_before_and_after(n):
    cdynamo.graph_break()
    try:
        raise group()
    except* Exception as error:
        n += len(error.exceptions)
        found = shown(error)
    cdynamo.graph_break()
    return found, n


def traceback_lines(n):
    try:
        try:
            raise group()
        except* ValueError:
            raise
    except ExceptionGroup as left:
        lines, at = [], left.__traceback__
        while at:
            lines.append(at.tb_lineno)
            at = at.tb_next
        return lines, [part.__traceback__ is None for part in left.exceptions]


def naked_outlives(n):
    try:
        try:
            raise ValueError(n)
        except* ValueError as error:
            raise error
    except ExceptionGroup as left:
        return shown(left), left.args


def split_by_the_class(n):
    class Own(ExceptionGroup):
        def split(self, condition):
            return None, self

    try:
        try:
            raise Own("o", [ValueError(n), KeyError()])
        except* ValueError:
            n += 1
    except ExceptionGroup as left:
        return n, type(left).__name__


@pytest.mark.parametrize(
    "fn",
    [break_in_body, break_in_clause, break_before_and_after, traceback_lines, naked_outlives, split_by_the_class],
    ids=lambda fn: fn.__name__,
)
def test_groups_around_graph_breaks(fn):
    check(fn, (3,), (4,), breaks=None)
