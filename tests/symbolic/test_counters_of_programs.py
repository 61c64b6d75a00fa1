"""itertools.count that comes in: ids and step numbers that a program counts."""

from __future__ import annotations

import itertools
import sys

import pytest

import cdynamo

IDS = itertools.count()


class Job:
    numbers = itertools.count(10)

    def __init__(self):
        self.number = next(self.numbers)


def ids():
    return next(IDS), next(IDS)


def jobs():
    return [Job().number for _ in range(3)], Job.numbers.__next__()


def taken_by_a_loop():
    taken = []
    for number in IDS:
        taken.append(number)
        if len(taken) == 3:
            return taken


def with_others():
    return list(zip("abc", IDS)), list(zip(IDS, "ab")), next(IDS), dict(zip("xy", Job.numbers))


def through_iterators():
    return list(itertools.islice(IDS, 2)), next(iter(IDS)), IDS.__iter__() is IDS, type(IDS).__name__


@pytest.mark.parametrize("program", [ids, jobs, taken_by_a_loop, with_others, through_iterators])
def test_counts_are_advanced(program):
    global IDS
    outcomes = []
    cdynamo.config.keep_empty_graphs = True
    for fn in (program, cdynamo.optimize(program, fullgraph=True)):
        IDS, Job.numbers = itertools.count(), itertools.count(10)
        found = []
        for n in range(7):
            found.append((fn(), repr(IDS), repr(Job.numbers)))
            if n == 4:
                next(IDS)
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]


def test_a_count_is_compiled_once():
    numbers = itertools.count()
    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(lambda: next(numbers), fullgraph=True)
    for n in range(4):
        assert fast() == n
    before = cdynamo.counters()["frames_compiled"]
    assert [fast() for _ in range(20)] == [*range(4, 24)] and cdynamo.counters()["frames_compiled"] == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: itertools.count(5, 2),
        lambda: itertools.count(0.5),
        lambda: itertools.count(sys.maxsize - 2),
        lambda: itertools.count(sys.maxsize + 5),
        lambda: itertools.count(-3),
    ],
)
def test_other_counts(make):
    def program(numbers):
        return next(numbers), next(numbers), next(numbers), next(numbers)

    fast, got, expected = cdynamo.optimize(program), make(), make()
    for _ in range(3):
        assert fast(got) == program(expected) and repr(got) == repr(expected)
    plain = itertools.count(3)
    assert fast(plain) == (3, 4, 5, 6) and repr(plain) == "count(7)"


def test_a_count_that_goes_far():
    """A count becomes one of another kind where numbers no longer fit."""

    def program(numbers):
        return next(numbers), next(numbers)

    fast, got, expected = cdynamo.optimize(program), itertools.count(sys.maxsize - 9), itertools.count(sys.maxsize - 9)
    for _ in range(8):
        assert fast(got) == program(expected) and repr(got) == repr(expected)
