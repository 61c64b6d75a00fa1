# A loop that is left out of a handler: the exception is not handled any more.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, m):
    while m:
        try:
            {}["k"]
        except KeyError:
            print(end="")
            if m > 1:
                break
    return x, sys.exc_info()[1]


CALLS = [
    lambda: ((1, 2), {}),
    lambda: ((1, 3), {}),
]
