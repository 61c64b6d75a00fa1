# The result does not fit: an internal error in the place of NumPy's.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y):
    np.multiply(x, y, out=y)


CALLS = [lambda: ((np.ones((2, 3)), np.ones(3)), {})]
