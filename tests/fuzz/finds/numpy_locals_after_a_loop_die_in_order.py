# A local that is not read after a loop that is left to Python dies with the function, before those that come after it.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    log = []
    first = steps(3, log)
    log.append(next(first, None))
    fuel = 3
    while x.sum() < 20 and fuel > 0:
        fuel -= 1

    def g(w=2):
        try:
            yield w
        finally:
            log.append("end")

    second = g()
    log.append(next(second))
    return log


CALLS = [lambda: ((np.arange(3.0),), {})] * 2
