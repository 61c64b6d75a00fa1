"""cache_info() and cache_clear() of functions under functools.lru_cache, at their places among captured calls."""

from __future__ import annotations

import functools
import math

import pytest
from values_check import break_reports

import cdynamo

STATE = {"factor": 2}


def caches():
    """Cached functions of one program's own."""

    @functools.lru_cache(maxsize=None)
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    @functools.lru_cache(maxsize=2)
    def square(n):
        return math.pow(n, 2)

    @functools.cache
    def table(n):
        return [n] * 2

    @functools.lru_cache
    def scaled(n):
        return n * STATE["factor"]

    class Shape:
        @functools.lru_cache(maxsize=8)
        def area(self):
            return 6

    return fib, square, table, scaled, Shape


def totals(c):
    fib = c[0]
    return fib(10), fib.cache_info(), fib(10), fib.cache_info(), fib(5), fib.cache_info().hits


def asked_first(c):
    before = c[0].cache_info()
    return before, c[0](12), before.currsize


def asked_between(c):
    fib, square = c[0], c[1]
    first = square(3)
    return first, fib.cache_info(), square.cache_info(), fib.cache_parameters(), square.cache_info().maxsize


def cleared(c):
    square = c[1]
    square.cache_clear()
    empty = square.cache_info()
    return empty, square(4), square(4)


def cleared_after(c):
    value = c[0](6)
    c[0].cache_clear()
    return value, c[0].cache_info(), tuple(c[0].cache_info())


def cleared_twice(c):
    c[1].cache_clear()
    value = c[1](3)
    c[1].cache_clear()
    return value, c[1].cache_info()


def cleared_of_another(c):
    c[1].cache_clear()
    return c[0](9), c[0].cache_info(), c[1].cache_info()


def cleared_with_state(c):
    c[3].cache_clear()
    STATE["factor"] = STATE["factor"] % 5 + 1
    return c[3](3), c[3](4)


def state_changes_after(c):
    c[3].cache_clear()
    value = c[3](3)
    STATE["factor"] = STATE["factor"] % 5 + 1
    return value, c[3](3)


def lists(c):
    c[2].cache_clear()
    one = c[2](2)
    return one, c[2](2) is one


def drops(c):
    square = c[1]
    return [square(n) for n in (1, 2, 3, 1)], square.cache_info()


def of_a_method(c):
    shape = c[4]()
    return shape.area(), c[4].area.cache_info(), shape.area.cache_info().hits


def asked_by_another(c):
    @functools.cache
    def hits():
        c[0](4)
        return c[0].cache_info().hits

    return hits(), c[0](4), hits(), hits.cache_info().hits


def asked_by_a_cached_one(c):
    c[0](4)
    return ASKING(c[0]), c[0].cache_info(), ASKING.cache_info().currsize > 0


@functools.cache
def ASKING(fib):
    return fib.cache_info().hits


def cleared_by_a_cached_one(c):
    c[1](4)
    CLEARING.cache_clear()
    return CLEARING(c[1]), c[1].cache_info(), c[1](4), c[1].cache_info()


@functools.cache
def CLEARING(square):
    square.cache_clear()
    return 3


def made_inside(c):
    @functools.lru_cache(maxsize=4)
    def f(n):
        return n + 1

    f(1), f(1), f(2)
    before = f.cache_info()
    f.cache_clear()
    return before, f(1), f.cache_info(), f.cache_parameters()


PROGRAMS = [
    totals,
    asked_first,
    asked_between,
    cleared,
    cleared_after,
    cleared_twice,
    cleared_of_another,
    cleared_with_state,
    state_changes_after,
    lists,
    drops,
    of_a_method,
    asked_by_another,
    asked_by_a_cached_one,
    cleared_by_a_cached_one,
    made_inside,
]


def run(program, fn, between):
    """What each call gives, and all caches say after it, the factor beginning at 2."""
    STATE["factor"], made, outcomes = 2, caches(), []
    for n in range(6):
        between(made, n)
        result = fn(made)
        outcomes.append((result, [f.cache_info() for f in (*made[:4], made[4].area)], STATE["factor"]))
    return outcomes


def nothing_between(made, n):
    pass


def calls_between(made, n):
    made[0](n + 3)
    made[1](n)
    if n % 2:
        made[0].cache_clear()
        made[2](2)


@pytest.mark.parametrize("between", [nothing_between, calls_between])
@pytest.mark.parametrize("program", PROGRAMS)
def test_numbers_are_those_of_plain_python(program, between):
    expected = run(program, program, between)
    cdynamo.config.keep_empty_graphs = True
    assert run(program, cdynamo.optimize(program), between) == expected


def test_numbers_break_nothing():
    fib, square, *_ = caches()

    def program(n):
        value = fib(8)
        return value, fib.cache_info(), n

    def clearing(n):
        square.cache_clear()
        return square(3), n

    cdynamo.config.keep_empty_graphs = True
    fib(8)
    fast = cdynamo.optimize(program, fullgraph=True)
    for n in range(8):
        hits = fib.cache_info().hits
        value, info, _ = fast(n)
        assert value == 21 and info == fib.cache_info() and info.hits == hits + 1 and type(info).__name__ == "CacheInfo"
    fast = cdynamo.optimize(clearing, fullgraph=True)
    for n in range(8):
        square(5)
        assert fast(n) == (9.0, n) and square.cache_info() == (0, 1, 2, 1)


def test_numbers_that_grow_are_compiled_once():
    torch = pytest.importorskip("torch")
    fib = caches()[0]
    fast = cdynamo.optimize(lambda x: (x + fib(9), fib.cache_info().hits), fullgraph=True)
    fib(9)
    for n in range(12):
        y, hits = fast(torch.ones(2))
        assert y[0] == 35 and hits == fib.cache_info().hits
        if n == 3:
            before = cdynamo.counters()["frames_compiled"]
    assert cdynamo.counters()["frames_compiled"] == before


def test_a_cache_that_is_filled_from_within():
    """Calls of which the first is held no longer when the next ones are captured."""
    fib = caches()[0]
    cdynamo.config.keep_empty_graphs, cdynamo.config.suppress_errors = True, False
    with break_reports() as reports:
        for n in (10, 12, 11, 15):
            fib.cache_clear()
            fast = cdynamo.optimize(lambda n=n: fib(n), fullgraph=True)
            for _ in range(3):
                assert fast() == fib.__wrapped__(n)
    assert not reports
