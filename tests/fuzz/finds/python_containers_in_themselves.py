# What a capture knows of them held itself, and with it the arguments, for good.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(l, d, o):
    l.append(l)
    d["self"] = d
    o.v = [o]
    new = {"l": l}
    new["new"] = [new, o]


CALLS = [lambda: (([1, 2], {"k": 1}, Item(1)), {})]
