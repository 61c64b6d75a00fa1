"""Tracebacks of compiled functions: the program's frames, each once, at the line that failed."""

import traceback

import pytest

import cdynamo


@pytest.fixture(autouse=True)
def all_frames():
    cdynamo.config.keep_empty_graphs = True
    yield
    cdynamo.config.keep_empty_graphs = False


def say(*args):
    print(*args)


def fails(n):
    print("fails", n)
    return 1 // n


def straight(n):
    print("a")
    print("b")
    n = n - 1
    print("c")
    return fails(n)


def guarded(n):
    with open("/dev/null", "w") as sink:
        print("a", file=sink)
        try:
            print("b", file=sink)
            return straight(n)
        finally:
            print("c", file=sink)


def recursive(n):
    print(n)
    if n == 0:
        print("end")
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
