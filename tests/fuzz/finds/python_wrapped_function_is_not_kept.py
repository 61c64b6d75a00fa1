# functools.wraps does not keep what it wraps: the generator ends with the frame.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(l):
    log = []

    def g(w=2):
        try:
            yield w
        finally:
            log.append("end")

    v = g()
    log.append(next(v, None))
    l.reverse()
    with contextlib.suppress(KeyError):

        @decorated
        def inner(w):
            nonlocal v
            log.append(l is w)

        try:
            inner([*l])
        except ValueError:
            pass
    return log


CALLS = [
    lambda: (([1, 2],), {}),
    lambda: (([1, 2],), {}),
]
