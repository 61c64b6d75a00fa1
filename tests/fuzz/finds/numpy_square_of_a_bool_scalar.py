# The square of an array of bools is int8, that of a scalar is int64.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    return x.all() ** 2, (x > 1) ** 2, np.square(x.any())


CALLS = [
    lambda: ((np.arange(3.0),), {}),
]
