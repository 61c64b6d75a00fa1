"""cache_info() and cache_clear() of functions under functools.lru_cache, at their places among captured calls."""

from __future__ import annotations

import functools
import itertools
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


def test_recursion_is_followed_once_for_each_call():
    """The cache has dropped what a capture has had it hold: nothing is held while the calls are captured again."""
    fib = caches()[0]
    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(lambda: (fib(40), fib(40), fib(39)), fullgraph=True)
    for _ in range(5):
        assert fast() == (102334155, 102334155, 63245986) and fib.cache_info() == (40, 41, None, 41)
        fib.cache_clear()


# ---- captures that are not used: the caches are as they were


def way_not_taken(x, c):
    log = [c[0].cache_info(), c[1].cache_info()]
    if x.sum() > 100:
        log.append((c[0](7), c[1](3)))
    return log, c[0].cache_info(), c[1].cache_info(), x + 1


def class_afterwards(x, c):
    one = c[2](3)

    class Own:
        held = one

    cdynamo.graph_break()
    return Own.held is c[2](3), c[2].cache_info(), x + 1


def loop_with_a_break(x, c):
    log = []
    for n in range(4):
        log.append((c[1].cache_info(), c[0].cache_info()))
        log.append((c[1](n % 3), c[0](n)))
        cdynamo.graph_break()
        x = x + 1
    return log, x


def orders(x, c):
    c[1](1), c[1](2)
    if x.sum() > 100:
        c[1](1)
    c[1](3)
    return c[1].cache_info(), c[1](2), c[1].cache_info(), x + 1


def error_inside(x, c):
    @functools.cache
    def refuses(n):
        c[0](n)
        raise ValueError(n)

    log = []
    for _ in range(2):
        try:
            refuses(3)
        except ValueError as error:
            log.append(error.args)
    return log, c[0].cache_info(), x + 1


@pytest.mark.parametrize("program", [way_not_taken, class_afterwards, loop_with_a_break, orders, error_inside])
def test_captures_leave_nothing_in_caches(program):
    torch = pytest.importorskip("torch")

    def outcomes(fn):
        results, c = [], caches()
        for n in range(5):
            *result, y = fn(torch.ones(3) * (60 * (n == 3)), c)
            results.append((result, y.tolist(), [f.cache_info() for f in (*c[:4], c[4].area)]))
        return results

    cdynamo.config.keep_empty_graphs = True
    assert outcomes(cdynamo.optimize(program)) == outcomes(program)


def raised_by_python(x, i, c):
    if x.sum().item() > 2:
        raise ValueError(i)
    return c[1](3), c[1].cache_info(), c[2](3)


def raised_by_the_graph(x, i, c):
    y = x[i]
    return c[1](3), c[1].cache_info(), c[2](3), y.tolist()


@pytest.mark.parametrize("program", [raised_by_python, raised_by_the_graph])
def test_calls_that_an_error_is_raised_before_leave_nothing_in_caches(program):
    """The error is found when the graph runs, for the first time as well."""
    torch = pytest.importorskip("torch")

    def outcomes(fn):
        results, c = [], caches()
        for bad in (True, True, False, True, False):
            try:
                result = fn(torch.ones(4 if bad else 2), torch.tensor([9 if bad else 1]), c)
            except (ValueError, IndexError) as error:
                result = type(error)
            results.append((result, [f.cache_info() for f in c[:4]]))
        return results

    cdynamo.config.keep_empty_graphs = True
    assert outcomes(cdynamo.optimize(program)) == outcomes(program)


# ---- functions that read what captured code changes


class Holder:
    def __init__(self):
        self.parts = {"n": [1]}


HOLDER = Holder()


@functools.lru_cache(maxsize=None)
def parts_of(n):
    return [n, HOLDER.parts["n"][0]]


@functools.lru_cache(maxsize=2, typed=True)
def plain_part(n):
    return n + HOLDER.parts["n"][0]


def written_before(n):
    HOLDER.parts["n"][0] = n + 5
    return parts_of(n), plain_part(n), plain_part(n + 1), plain_part(n)


def written_after(n):
    one = plain_part(n), parts_of(n)
    HOLDER.parts["n"] = [n + 7]
    return one, plain_part(n), plain_part.cache_info()


def written_between(n):
    HOLDER.parts["n"][0] += 1
    one = parts_of(n), plain_part(n)
    HOLDER.parts["n"][0] += 1
    return one, parts_of(n + 1), plain_part(n + 1)


def written_elsewhere(n):
    log = []
    log.append(plain_part(n))
    SEEN.append(n)
    return log, parts_of(n), list(SEEN)


SEEN = []


@pytest.mark.parametrize("program", [written_before, written_after, written_between, written_elsewhere])
def test_results_of_what_is_changed_are_plain_pythons(program):
    def outcomes(fn):
        SEEN.clear()
        HOLDER.parts = {"n": [1]}
        results = []
        for f in (parts_of, plain_part):
            f.cache_clear()
        for n in (1, 1, 2, 3, 1):
            results.append((fn(n), parts_of(n), plain_part(n), parts_of.cache_info(), plain_part.cache_info()))
        return results

    cdynamo.config.keep_empty_graphs = True
    assert outcomes(cdynamo.optimize(program)) == outcomes(program)


def test_what_is_changed_elsewhere_breaks_nothing():
    pairs, sums = functools.cache(parts_of.__wrapped__), functools.lru_cache(2)(plain_part.__wrapped__)

    def program(n):
        SEEN.append(n)
        return pairs(n), sums(n)

    SEEN.clear()
    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(program, fullgraph=True)
    for _ in range(4):
        assert fast(1) == ([1, HOLDER.parts["n"][0]], 1 + HOLDER.parts["n"][0])
    assert SEEN == [1] * 4 and sums.cache_info() == (3, 1, 2, 1)


def test_what_has_no_hash_is_refused_where_it_is():
    def program(n):
        m = n + 1
        return m, plain_part((m, [n]))

    cdynamo.config.keep_empty_graphs = True
    for fn in (program, cdynamo.optimize(program)):
        with pytest.raises(TypeError, match="unhashable") as raised:
            fn(2)
        assert [entry.name for entry in raised.traceback][1:] == ["program"]


def test_a_call_of_a_changing_key_takes_the_place_of_what_is_held():
    def f(m):
        @functools.lru_cache(maxsize=1)
        def own(v):
            return None

        cdynamo.graph_break()
        own(m)
        return own(len), own.cache_info()

    fast = cdynamo.optimize(f)
    for m in (0, 1, 2, 3):
        assert fast(m) == f(m)


@pytest.mark.parametrize("sizes", list(itertools.permutations([0, 1, 2, None], 2)), ids=str)
@pytest.mark.parametrize("typed", [(False, False), (True, True), (False, True), (True, False)], ids=str)
def test_functions_made_anew_hold_what_their_own_size_lets_them(sizes, typed):
    def f(size, by_type, m):
        @functools.lru_cache(maxsize=size, typed=by_type)
        def own(v, w=1):
            return iter((m, 1))

        cdynamo.graph_break()
        results = [own(1), own(2), own(1), own(1.0), own(m), own(2)]
        same = [a is b for a in results for b in results]
        return same, [next(each, 0) for each in results], own.cache_info(), own

    fast = cdynamo.optimize(f)
    for size, by_type in [*zip(sizes, typed, strict=True)] * 2:
        got, expected = fast(size, by_type, 4), f(size, by_type, 4)
        assert got[:3] == expected[:3]
        assert got[3].cache_parameters() == expected[3].cache_parameters()


def test_what_fills_a_cache_elsewhere_drops_what_it_held():
    @functools.lru_cache(maxsize=2)
    def own(v):
        return iter((v, 1))

    def f(m):
        first = own(1)
        return [own(m), own(len), own(1) is first]

    def run(call):
        own.cache_clear()
        same = []
        for outside in (7, 1, 8):
            own(outside)
            same.append(call(5)[2])
        return same, own.cache_info()

    assert run(cdynamo.optimize(f)) == run(f)
