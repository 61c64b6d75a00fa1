# What a cached function that is made anew in each call holds depends on the size that it is made with.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(l, d, o, z, n, *, m, s):
    @functools.lru_cache(maxsize=len(l))
    def own(v, w=1):
        return iter((m, 1))

    return [own(o), own(m), own(m), own]


CALLS = [
    lambda: (([3, [4], 5], {"k": 1}, Item("w"), zip([1, 2], "ab"), 3), dict(m=4, s="s")),
    lambda: (([1, 2], {"k": 1}, Item("w"), zip([1, 2], "ab"), 3), dict(m=4, s="s")),
    lambda: (([], {"k": 1}, Item("w"), zip([1, 2], "ab"), 3), dict(m=4, s="s")),
]
