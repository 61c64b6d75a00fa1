# Whether functions of the closure read state was asked of themselves again and again, until the stack was at its end.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True


def f(n):
    def itself():
        return itself

    def even(v):
        return v == 0 or odd(v - 1)

    def odd(v):
        return v != 0 and even(v - 1)

    @functools.lru_cache
    def own(v):
        return own(v - 1), itself

    @functools.lru_cache(maxsize=None, typed=True)
    def own_even(v):
        return v if even(v) else itself

    log = [own_even(n), own_even(n + 1) is itself, own_even.cache_info()]
    try:
        own(n)
    except RecursionError:
        log.append(own.cache_info().hits)
    return log


CALLS = [lambda: ((2,), {}), lambda: ((3,), {}), lambda: ((4,), {})]
