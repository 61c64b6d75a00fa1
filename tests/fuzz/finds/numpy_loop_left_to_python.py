# The same with an array.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    x = x * 2
    for i in range(3):
        x = x + 1
        print(end="")
    x = x + 2
    return x


CALLS = [lambda: ((np.arange(3.0),), {}), lambda: ((np.arange(4),), {})]
