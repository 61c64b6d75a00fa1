# A tuple that was computed beside the cache had a list of its own.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(n):
    log = []
    for v in divmod(left_alone(n) << 1, 3):

        @functools.lru_cache(typed=True)
        def own(v):
            if 0 < v < 5:
                return own(v - 1), [n, v]
            return v / 2

        log.append([own(v), own(2), own.cache_info()])
        log.append((own(1), tuple(own.cache_info())))
        own.cache_clear()
        log.append((own(2), own(v), own.cache_info()))
    return log


CALLS = [lambda: ((3,), {})] * 2
