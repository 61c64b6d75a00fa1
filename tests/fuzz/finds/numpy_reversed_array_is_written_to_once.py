# Looking for the types of a graph ran it for real: no tensor has this memory, so there was no fake one.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    x += 1
    x[:] = x[::-1]
    return x


CALLS = [lambda: ((np.arange(3.0)[::-1],), {})]
