# The first of equal items is what max() and min() give, and it may be a bool.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(n, m):
    return max(n, m), min(m, n), max(m, n), min(n, m), max(m, 2), min([n, m, 7])


CALLS = [
    lambda: ((True, 0), {}),
    lambda: ((True, 1), {}),
    lambda: ((True, 3), {}),
    lambda: ((False, 0), {}),
    lambda: ((1, 1), {}),
]
