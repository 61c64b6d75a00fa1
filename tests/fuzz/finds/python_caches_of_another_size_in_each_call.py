# What a cached function that is made anew in each call holds depends on the size that it is made with.
from fuzz.prelude import *

STATE = []


def f(x, y, l, d, o, n, *, m, s):
    STATE.append(n)

    @functools.lru_cache(maxsize=len(STATE) - 1)
    def own(v, w=1):
        return iter((m, 1))

    return [own(o), own(m), own(m), own]
