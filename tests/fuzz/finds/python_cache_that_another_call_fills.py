# The first call's key is an int that changes: what it holds takes the place of what capture has had held.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(l, d, o, z, n, *, m, s):
    log = []

    @functools.lru_cache(maxsize=m)
    def own(v, w=1):
        pass

    own(m - left_alone(0))
    log.append((own(len), own.cache_info()))
    return log


CALLS = [
    lambda: (([(1, 2), {}], {"k": 1}, Item(None), zip([1, 2], "ab"), 3), dict(m=0, s="sks")),
    lambda: (([3, [4], 5], {"k": 1}, Item("w"), zip([1, 2], "ab"), 3), dict(m=1, s="s")),
]
