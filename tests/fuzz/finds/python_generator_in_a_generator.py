# A generator that has no `try` may hold one that has, which dies with it: at the end of the function, not at a break before.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(n):
    log = []

    def outer():
        for v in range(n):
            inner = steps(3, log)
            log.append(next(inner))
            yield v

    unstarted = outer()
    log.append(next(unstarted, None))
    print(end="")
    log.append("before the end")
    return log


CALLS = [lambda: ((2,), {}), lambda: ((0,), {}), lambda: ((3,), {})]
