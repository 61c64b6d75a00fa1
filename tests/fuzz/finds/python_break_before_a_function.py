# A frame was left between making a function and giving it its closure, which is one instruction before 3.13.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(o):
    def g(w=2):
        yield from (lambda q: (v for v in range(q)))(len(o))

    v = g()
    next(v, None)
    print(end="")
    return v


CALLS = [lambda: ((Item(1),), {})]
