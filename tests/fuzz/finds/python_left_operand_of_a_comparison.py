# The error of a comparison that no operand supports names the left one first, also where both are constants.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(n):
    for index in np.ndindex(1):
        try:
            return index < n < 4
        except TypeError as error:
            return repr(error), index == n, index != n


CALLS = [lambda: ((2,), {}), lambda: ((2,), {}), lambda: ((3,), {})]
