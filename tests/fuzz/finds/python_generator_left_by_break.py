# The iterator of a loop that is left dies there: its `finally` runs before what follows, also where Python ran a part of the loop.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(n):
    log = []
    for i in steps(n, log):
        break
    log.append("after")
    for i in steps(n, log):
        for j in steps(2, log):
            print(end="")
            break
        log.append("inner")
        if i == 1:
            break
    log.append("after both")
    for i in steps(n, log):
        kept = steps(3, log)
        next(kept)
        return log, log.append("returned")
    return log


CALLS = [lambda: ((2,), {}), lambda: ((3,), {}), lambda: ((4,), {})]
