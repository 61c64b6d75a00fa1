"""What captured code asks loggers and generators, and what it registers for the end of the process."""

from __future__ import annotations

import atexit
import contextvars
import inspect
import logging

import pytest
from values_check import check

import cdynamo

PARENT = logging.getLogger("test_loggers")
CHILD = logging.getLogger("test_loggers.child")


def asked(level):
    return (
        CHILD.getEffectiveLevel(),
        CHILD.level,
        CHILD.hasHandlers(),
        CHILD.isEnabledFor(level),
        CHILD.name,
        logging.getLogger("test_loggers.child") is CHILD,
        logging.getLogger("test_loggers").getEffectiveLevel(),
    )


def test_levels_and_handlers_are_guarded():
    cdynamo.config.keep_empty_graphs = True
    fast, handler = cdynamo.optimize(asked, fullgraph=True), logging.NullHandler()
    propagates = PARENT.propagate
    try:
        for level in (logging.INFO, logging.DEBUG, logging.NOTSET, logging.ERROR, logging.INFO):
            PARENT.setLevel(level)
            assert [fast(logging.INFO) for _ in range(2)] == [asked(logging.INFO)] * 2
        CHILD.setLevel(logging.WARNING)
        assert fast(logging.INFO) == asked(logging.INFO) and not fast(logging.INFO)[3]
        PARENT.propagate = False
        assert fast(logging.INFO) == asked(logging.INFO)
        for logger in (PARENT, CHILD):
            logger.addHandler(handler)
            assert fast(logging.INFO) == asked(logging.INFO) and fast(logging.INFO)[2]
            logger.removeHandler(handler)
            assert fast(logging.INFO) == asked(logging.INFO) and not fast(logging.INFO)[2]
    finally:
        PARENT.propagate = propagates
        PARENT.setLevel(logging.NOTSET)
        CHILD.setLevel(logging.NOTSET)


def test_messages_stand_where_they_stood():
    """A message's level is asked where it is logged, as the effective one is."""
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append((record.levelname, record.getMessage()))

    def program(n):
        CHILD.debug("debug %s", n)
        if CHILD.getEffectiveLevel() <= logging.INFO:
            CHILD.info("info %s", n)
        return n + 1

    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(program)
    PARENT.addHandler(handler)
    try:
        for level in (logging.INFO, logging.DEBUG, logging.ERROR, logging.DEBUG):
            PARENT.setLevel(level)
            told = []
            for fn in (program, fast):
                records.clear()
                told.append((fn(3), list(records)))
            assert told[0] == told[1]
    finally:
        PARENT.removeHandler(handler)
        PARENT.setLevel(logging.NOTSET)


def states():
    def numbers():
        found.append(inspect.getgeneratorstate(made))
        yield 1
        yield 2

    found = []
    made, closed, failed = numbers(), numbers(), (1 // n for n in [0])
    found.append(inspect.getgeneratorstate(made))
    next(made)
    found.append(inspect.getgeneratorstate(made))
    list(made)
    found.append(inspect.getgeneratorstate(made))
    closed.close()
    found.append(inspect.getgeneratorstate(closed))
    try:
        next(failed)
    except ZeroDivisionError:
        found.append(inspect.getgeneratorstate(failed))
    return found, inspect.getgeneratorstate(n for n in [1]) == inspect.GEN_CREATED


def variables(n):
    def inner():
        return n, ROWS, len, missing  # noqa: F821

    found = inspect.getclosurevars(inner)
    return found.nonlocals, found.globals, sorted(found.builtins), found.unbound


ROWS = (1, 2)


@pytest.mark.parametrize(("fn", "calls"), [(states, [()]), (variables, [(3,), (4,), (5,)])])
def test_what_is_asked_of_functions_and_generators(fn, calls):
    check(fn, *calls)


def test_a_generator_that_comes_in_is_asked_by_python():
    def numbers():
        yield 1

    fast, made = cdynamo.optimize(lambda g: inspect.getgeneratorstate(g)), numbers()
    assert fast(made) == "GEN_CREATED"
    next(made)
    assert fast(made) == "GEN_SUSPENDED"
    list(made)
    assert fast(made) == "GEN_CLOSED"


def test_what_is_registered_for_the_end():
    registered = []

    def program(log):
        return atexit.register(log.append, 1) == log.append

    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(program, fullgraph=True)
    for _ in range(3):
        before = atexit._ncallbacks()
        assert fast(registered)
        assert atexit._ncallbacks() == before + 1
        atexit.unregister(registered.append)
    assert not registered


VARIABLE = contextvars.ContextVar("VARIABLE")


def set_and_reset():
    before = VARIABLE.get(0)
    first = VARIABLE.set(1)
    second = VARIABLE.set(2)
    third = VARIABLE.set(3)
    found = [before, VARIABLE.get()]
    VARIABLE.reset(second)
    found.append(VARIABLE.get())
    VARIABLE.reset(third)
    found.append(VARIABLE.get())
    VARIABLE.reset(first)
    return found, VARIABLE.get(0)


def set_and_half_reset():
    first = VARIABLE.set(VARIABLE.get(0) + 1)
    VARIABLE.set(7)
    VARIABLE.reset(first)
    return VARIABLE.get(0)


@pytest.mark.parametrize("program", [set_and_reset, set_and_half_reset])
def test_tokens_are_reset_in_any_order(program):
    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(program, fullgraph=True)
    for value in (None, 4, 5, None):
        outcomes = []
        for fn in (program, fast):
            token = VARIABLE.set(value) if value is not None else None
            outcomes.append((fn(), fn(), VARIABLE.get("nothing")))
            if token is not None:
                VARIABLE.reset(token)
            assert VARIABLE.get("nothing") == "nothing"
        assert outcomes[0] == outcomes[1]
