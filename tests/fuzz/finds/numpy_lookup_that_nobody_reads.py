# It raises all the same; NumPy looks at indices where there are no elements too.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, i):
    try:
        x[i]
        return x + 1
    except IndexError as error:
        return str(error)


CALLS = [
    lambda: ((np.arange(3.0), np.array([9])), {}),
    lambda: ((np.arange(3.0), np.array([1])), {}),
    lambda: ((np.zeros((3, 0)), np.array([9])), {}),
    lambda: ((np.zeros((0, 3)), np.array([0])), {}),
]
