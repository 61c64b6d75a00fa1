# What an operation raises in a handler has the exception that is handled as its context.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def stops():
    yield 1
    next(iter([]))


OPERATIONS = [
    lambda: {}["k"],
    lambda: [][3],
    lambda: None.name,
    lambda: 1 + "s",
    lambda: int("x"),
    lambda: next(iter([])),
    lambda: list(stops()),
    lambda: undefined,
    lambda: fails(2),
]


def chain(error):
    words = []
    while error is not None and len(words) < 5:
        words.append((type(error).__name__, str(error), error.__suppress_context__, repr(error.__cause__)))
        error = error.__context__
    return words


def f(log):
    for operation in OPERATIONS:
        try:
            try:
                raise ValueError("outer")
            except ValueError:
                operation()
        except Exception as error:
            log.append(chain(error))
    return log


CALLS = [lambda: (([],), {})] * 2
