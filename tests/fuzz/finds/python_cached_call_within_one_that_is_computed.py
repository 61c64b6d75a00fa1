# own(True) is another key than own(1), and calls own(0), which captured code has computed and nothing holds yet.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(z, o):
    log = []

    @functools.lru_cache
    def own(v):
        if v:
            return own(v - 1)

    own(next(z))
    own.cache_clear()
    log.append((own(2), own(id(o) == id(o)), own.cache_info()))
    return log


CALLS = [lambda: ((iter([2]), Item(1)), {})] * 2
