# Own is in a cycle, and holds the object that the callback waits for.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


@functools.lru_cache
def KEPT(v, w=1):
    pass


@functools.lru_cache(maxsize=2, typed=True)
def FEW(v):
    pass


def f(l, d, o, z, n, m, s):
    log = []
    o = Item(o)
    look16 = weakref.ref(o, lambda dead: log.append("dead"))
    m = eval("n")

    class Own:
        @property
        def both(self):
            return (self.v, self.w, o == Item() and None)

    return log


CALLS = [lambda: (([], {"s": 0, 1: 2}, Item(None), iter([1, 2, 3]), 5, 0, "ab"), {})]
