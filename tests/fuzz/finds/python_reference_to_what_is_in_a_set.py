# What is in a set that a guard compares dies where the program lets go of it, and its reference's callback is called.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(l, d, o, z, n, m, s):
    log = []
    fuel7 = 4
    while fuel7:
        fuel7 -= 1
        o9 = Item(set((o, m)))
        look8 = weakref.ref(o, lambda dead: log.append("dead"))
        o = Item(n)
    return log


CALLS = [lambda: (([3, [4], 5], {"k": 1}, Item(1), enumerate(["a", "b"]), 7, 1, "sks"), {})]
