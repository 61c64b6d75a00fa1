# Arithmetic of a Python float that changes from call to call.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    y = 3 - x * 2
    return [y, -y, x + y, y - x, y * 0.5, x - 1]


CALLS = [
    lambda: ((1.5,), {}),
    lambda: ((2.5,), {}),
    lambda: ((-3.5,), {}),
]
