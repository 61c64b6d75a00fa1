# A scalar that comes in is one under backends that work on tensors too: what its ravel is written to is a copy.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    print(end="")
    v = left_alone(np.float64(x))
    v.ravel()[0] = 5
    return v * 2, v, np.copy(v + x)


CALLS = [
    lambda: ((1.5,), {}),
    lambda: ((2.5,), {}),
    lambda: ((3.5,), {}),
]
