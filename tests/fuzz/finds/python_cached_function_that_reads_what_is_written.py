# The function was called while capturing, where what it reads was not written yet.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


@functools.lru_cache(maxsize=2, typed=True)
def few(v):
    return v * 2, STATE["n"]


def f(n):
    STATE["n"] = n
    log = [few(n), few.cache_info()]
    STATE["n"] += 1
    log.append((few(n + 1), few(n), few.cache_info()))
    return log


CALLS = [lambda: ((1,), {}), lambda: ((1,), {}), lambda: ((2,), {})]
