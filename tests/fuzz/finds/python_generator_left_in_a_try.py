# Python runs the `finally` as the last reference goes.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(n):
    log = []

    def g(*steps):
        try:
            yield from steps
        finally:
            log.append("end")

    for i in g(1, 2, 3):
        if i == n:
            break
    log.append(next(g(4, 5)))
    kept = g(6, 7)
    log.append(next(kept))
    return log


CALLS = [lambda: ((1,), {}), lambda: ((5,), {})]
