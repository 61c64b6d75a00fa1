"""numpy.errstate, seterr, geterr and their functions for errors in captured code, as far as they are quiet."""

from __future__ import annotations

import numpy as np
import pytest

import cdynamo

pytestmark = pytest.mark.skipif(int(np.__version__.split(".")[0]) < 2, reason="NumPy 1 keeps it elsewhere")


def asked(a):
    return a / 0, np.geterr(), np.geterrcall(), np.getbufsize()


def set_and_back(a):
    old = np.seterr(divide="ignore")
    between = np.geterr()
    result = a / 0
    again = np.seterr(**old)
    return result, old, between, again, np.geterr()


def set_for_good(a):
    return a / 0, np.seterr(over="ignore", invalid="ignore"), np.geterr()


def set_all(a):
    old = np.seterr(all="ignore")
    np.seterr(under="warn")
    return a / 0, old, np.geterr()


def no_function(a):
    return a + 1, np.seterrcall(None), np.geterrcall()


def in_a_block(a):
    with np.errstate(divide="ignore", invalid="warn"):
        inside = np.geterr()
        with np.errstate(all="ignore"):
            inner = np.geterr()
            b = a / 0
    return b, inside, inner, np.geterr()


def raised_through(a):
    try:
        with np.errstate(divide="ignore"):
            raise ValueError
    except ValueError:
        return a / 0, np.geterr()


def set_in_a_block(a):
    with np.errstate():
        np.seterr(under="warn")
        inside = np.geterr()
    return a * 2, inside, np.geterr()


def decorated_inside(a):
    @np.errstate(divide="ignore", invalid="ignore")
    def divided(v):
        """Divides."""
        return v / 0, np.geterr()

    return divided(a), divided.__name__, divided.__doc__, np.geterr()


def instance(a):
    state = np.errstate(under="ignore")
    with state:
        b = a * 2
    return b, type(state).__name__, isinstance(state, np.errstate)


def entered_twice(a):
    state = np.errstate(under="ignore")
    with state:
        try:
            with state:
                pass
        except TypeError as error:
            return a * 2, str(error)


PROGRAMS = [
    asked,
    set_and_back,
    set_for_good,
    set_all,
    no_function,
    in_a_block,
    raised_through,
    set_in_a_block,
    decorated_inside,
    instance,
    entered_twice,
]


def same(got, expected):
    if isinstance(expected, np.ndarray):
        return np.array_equal(got, expected, equal_nan=True) and got.dtype == expected.dtype
    if isinstance(expected, tuple):
        return len(got) == len(expected) and all(map(same, got, expected))
    return got == expected and type(got) is type(expected)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_errors_are_treated_as_the_program_says(program):
    fast, a = cdynamo.optimize(program, fullgraph=True), np.array([-1.0, 0.0, 2.0])
    around = [{}, {}, {"all": "ignore"}, {"divide": "ignore"}, {}, {"all": "ignore"}]
    for treatments in around:
        outcomes = []
        for fn in (program, fast):
            with np.errstate(**treatments):
                outcomes.append((fn(a), np.geterr()))
        assert same(outcomes[1], outcomes[0])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_set_stays_set():
    def program(a):
        np.seterr(divide="ignore")
        return a / 0

    def rest(a):
        return a / 0, np.geterr()["divide"]

    fast, then, a = cdynamo.optimize(program, fullgraph=True), cdynamo.optimize(rest, fullgraph=True), np.ones(2)
    with np.errstate():
        for _ in range(3):
            assert then(a)[1] == "warn"
            fast(a)
            assert np.geterr()["divide"] == "ignore" == then(a)[1]
            np.seterr(divide="warn")


def noticed(kind, flag):
    NOTICED.append(kind)


NOTICED = []


def raising(a):
    old = np.seterr(divide="raise")
    try:
        return a / 0
    except FloatingPointError as error:
        return str(error), np.geterr()["divide"]
    finally:
        np.seterr(**old)


def calling(a):
    old, function = np.seterr(divide="call"), np.seterrcall(noticed)
    try:
        return a / 0, np.geterrcall() is noticed
    finally:
        np.seterr(**old)
        np.seterrcall(function)


def raising_by_a_decorator(a):
    @np.errstate(divide="raise")
    def divided(v):
        return v / 0

    try:
        return divided(a)
    except FloatingPointError as error:
        return str(error)


def other_buffer(a):
    old = np.setbufsize(4096)
    try:
        return a + 1, np.getbufsize()
    finally:
        np.setbufsize(old)


@pytest.mark.parametrize("program", [raising, calling, raising_by_a_decorator, other_buffer])
def test_what_is_not_quiet_is_left_to_python(program):
    fast, a = cdynamo.optimize(program), np.array([1.0, 0.5])
    NOTICED.clear()
    expected, state = program(a), np.geterr()
    told = len(NOTICED)
    for n in range(3):
        assert same(fast(a), expected) and np.geterr() == state
        assert len(NOTICED) == (n + 2) * told


def test_a_function_for_errors_from_outside():
    fast, a = cdynamo.optimize(asked), np.ones(2)
    with np.errstate(divide="ignore"):
        for function in (None, noticed, None):
            before = np.seterrcall(function)
            try:
                assert same(fast(a)[1:3], asked(a)[1:3]) and fast(a)[2] is function
            finally:
                np.seterrcall(before)
