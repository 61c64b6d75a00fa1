# A generator in a `try` that only holds itself: a garbage collection closes it.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(log, by):
    made = []

    def waits(name):
        try:
            yield name
            made
        finally:
            log.append(name)

    def waits_in_it():
        yield from inner
        made

    inner = waits("inner")
    made = waits(by) if by != "inner" else waits_in_it()
    next(made, None)
    if by == "in a list":
        made = [made, inner]
        made.append(made)
    return log


CALLS = [lambda by=by: (([], by), {}) for by in ("closure", "inner", "in a list")]
