# A function whose call closes a generator, which says so, was called while capturing.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(n):
    log = []
    for i in range(n):
        pass

    @functools.lru_cache
    def own(v, w=1):
        return next((lambda q: steps(q, log))(i % 3), v)

    log.append(own(2))
    return log


CALLS = [lambda: ((2,), {})] * 2
