# NumPy's zero has the sign of the divisor.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y):
    return 1.0 / (x % 2.0), 1.0 / np.mod(x, y), 1.0 / (x % -2.0)


CALLS = [lambda: ((np.array([-0.0, 0.0, 2.0, -2.0, 4.0]), np.array([2.0, -2.0, 2.0, 2.0, -2.0])), {})]
