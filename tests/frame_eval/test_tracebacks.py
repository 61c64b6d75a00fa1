"""Tracebacks of compiled functions: the program's frames, each once, at the line that failed."""

import traceback

import pytest
from saying import shout

import cdynamo


@pytest.fixture(autouse=True)
def all_frames():
    cdynamo.config.keep_empty_graphs = True
    yield
    cdynamo.config.keep_empty_graphs = False


def say(*args):
    shout(*args)


def fails(n):
    shout("fails", n)
    return 1 // n


def straight(n):
    shout("a")
    shout("b")
    n = n - 1
    shout("c")
    return fails(n)


def guarded(n):
    with open("/dev/null", "w") as sink:
        shout("a", file=sink)
        try:
            shout("b", file=sink)
            return straight(n)
        finally:
            shout("c", file=sink)


def recursive(n):
    shout(n)
    if n == 0:
        shout("end")
        return 1 // n
    return recursive(n - 1)


def frames(function, *args):
    try:
        function(*args)
    except ZeroDivisionError as error:
        return [(frame.name, frame.line) for frame in traceback.extract_tb(error.__traceback__)[1:]]
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("function, argument", [(straight, 1), (guarded, 1), (recursive, 3)])
def test_each_frame_is_there_once(function, argument):
    fast = cdynamo.optimize(function)
    for _ in range(3):
        assert frames(fast, argument) == frames(function, argument)


def test_many_breaks_in_one_function():
    lines = ["def f(x):"] + ["    say(x); x = x + 1"] * 400 + ["    return x"]
    space = {"say": lambda x: None}
    exec("\n".join(lines), space)
    fast = cdynamo.optimize(space["f"])
    assert [fast(0) for _ in range(3)] == [400] * 3


def caught():
    try:
        int("x")
    except ValueError as error:
        return error


def cleared():
    try:
        int("x")
    except ValueError as error:
        return error.with_traceback(None)


def text_alone(x):
    try:
        int("x")
    except ValueError as error:
        text = str(error)
    return x + len(text)


def test_an_exception_that_is_returned_has_the_traceback_of_where_it_was_raised():
    error = cdynamo.optimize(caught)()
    assert [entry.line for entry in traceback.extract_tb(error.__traceback__)] == ['int("x")']
    outer = cdynamo.optimize(lambda: [entry.name for entry in traceback.extract_tb(caught().__traceback__)])
    assert outer() == ["caught"]


def test_an_exception_without_a_traceback_breaks_no_graph():
    assert cdynamo.optimize(cleared)().__traceback__ is None
    for function, arguments in ((cleared, ()), (text_alone, (1,))):
        assert not cdynamo.explain(function)(*arguments).breaks
