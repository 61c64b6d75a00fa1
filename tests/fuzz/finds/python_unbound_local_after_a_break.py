# The line of a read of a variable that has no value, in code that is warm (3.11 names the line before it).
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(l, o):
    for i, v in zip(l.copy(), range(3)):
        pass
    o = Item
    first, second = first
    return o


CALLS = [lambda: (([1, 2, 3], 0), {})] * 2 + [lambda: (([1, 2], 0), {})]
