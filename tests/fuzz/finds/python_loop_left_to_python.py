# A loop with a break in it and code after it: 3.12 and 3.13 crashed.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(n, l):
    n = n * 2
    for i in range(3):
        n = n + 1
        print(end="")
    n = n + 2
    return n, l


CALLS = [lambda: ((1, [1]), {}), lambda: ((2, []), {})]
