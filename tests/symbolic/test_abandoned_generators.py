"""Generators that are left before they have ended: Python closes them, and what their handlers do about that is seen."""

from __future__ import annotations

import collections.abc

import numpy as np
import pytest

import cdynamo


@pytest.fixture(autouse=True)
def fresh():
    cdynamo.reset()


class Steps(collections.abc.Sequence):
    """Iterated by Sequence.__iter__: a generator with `except IndexError` around its yield."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        if index >= 4:
            raise IndexError(index)
        return index


STEPS = Steps()
log: list = []
Chosen = LookupError


def guarded(n):
    for i in range(n):
        try:
            yield i
        except (KeyError, OSError):
            log.append("unusual")
        except ValueError as error:
            log.append(error)


def nested(n):
    try:
        try:
            for i in range(n):
                yield i
        except KeyError:
            log.append("key")
    except OSError:
        log.append("os")


def by_name(n):
    try:
        for i in range(n):
            yield i
    except Chosen:
        log.append("chosen")


def finishing(n):
    try:
        for i in range(n):
            yield i
    finally:
        log.append("closed")


def all_catching(n):
    try:
        yield n
    except BaseException:
        log.append("caught")
        raise


def inside_finally(n):
    try:
        yield from guarded(n)
    finally:
        log.append("outer")


def agree(program, breaks):
    """Plain Python's results and log, in three calls; the graph breaks of the compiled function, all in its first."""
    log.clear()
    x = np.arange(4.0)
    expected = program(x)
    wanted = list(log)
    compiled = cdynamo.optimize(program)
    before = cdynamo.counters()["graph_breaks"]
    for _ in range(3):
        log.clear()
        np.testing.assert_array_equal(compiled(x), expected)
        assert log == wanted
    assert (cdynamo.counters()["graph_breaks"] > before) == breaks


def test_handlers_that_let_the_close_through_break_nothing():
    agree(lambda x: x * any(s > 1 for s in STEPS) + next(iter(STEPS)), False)

    def zipped(x):
        for step, y in zip(STEPS, (1, 2)):
            x = x * y + step
        return x

    agree(zipped, False)
    for make in (guarded, nested):
        agree(lambda x, make=make: x + next(g for g in make(3) if g), False)


def test_a_class_by_a_name_of_the_module_is_guarded():
    global Chosen

    def program(x):
        return x + next(by_name(3))

    agree(program, False)
    compiled = cdynamo.optimize(program)
    x = np.arange(3.0)
    compiled(x)
    log.clear()
    try:
        Chosen = BaseException
        try:
            plain = program(x)
        finally:
            wanted = list(log)
            log.clear()
        np.testing.assert_array_equal(compiled(x), plain)
        assert log == wanted == ["chosen"]
    finally:
        Chosen = LookupError


@pytest.mark.parametrize("make", [finishing, all_catching, inside_finally])
def test_handlers_that_see_the_close_run_where_python_runs_them(make):
    def program(x):
        for i in make(3):
            x = x + i
            break
        log.append("after")
        return x * 2

    agree(program, True)


def test_the_report_names_the_generator(capfd):
    compiled = cdynamo.optimize(lambda x: x + next(finishing(2)), fullgraph=True)
    with pytest.raises(Exception, match=r"not run to its end: finishing \(.*test_abandoned_generators.py:\d+\)"):
        compiled(np.arange(3.0))


def test_a_variable_of_an_inner_function_keeps_its_generator_to_the_end():
    def program(x):
        def used():
            return left

        left = finishing(2)
        log.append(next(left))
        log.append("after")
        return x * 2

    agree(program, True)


@pytest.mark.parametrize(
    "holds",
    [
        lambda v: (1, v),
        lambda v: [v, "a"],
        lambda v: {"k": v},
        lambda v: ([v], 2.5),
        lambda v: [[1 for _ in range(2)], {"k": ()}, v],
        lambda v: v,
    ],
    ids=["tuple", "list", "dict", "nested", "beside lists", "itself"],
)
def test_what_a_local_that_is_not_read_again_holds_lives_as_long(holds):
    def program(x):
        for i in range(2):
            left = finishing(2)
            log.append(next(left))
            held = holds(left)  # noqa: F841
            left = i
            log.append("after")
            x = x + left
        del held
        log.append("last")
        return x * 2

    agree(program, True)


def test_a_generator_that_is_looked_up_as_a_key():
    """What guards the keys of the dict does not keep it."""

    def f(x, known, log):
        def make():
            try:
                yield 1
                yield 2
            finally:
                log.append("closed")

        for _ in range(3):
            generator = make()
            next(generator)
            log.append(known.pop(getattr(log, "missing", generator), "unknown"))
            log.append(generator.send(None))
        return x + 1

    logs = []
    for function in (f, cdynamo.optimize(f)):
        logs.append([])
        function(np.ones(2), {"k": 1}, logs[-1])
    assert logs[0] == logs[1]
