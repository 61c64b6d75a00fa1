# NumPy takes 0-dim arrays for elements.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y):
    x[0, 1] = y.sum()
    x[..., 0] = y[:1]
    x[0, 0, ...] = y[0]
    try:
        x[1, 2] = y[:1]
    except (TypeError, ValueError) as error:
        print(type(error).__name__, error, end=";")
    return x


CALLS = [lambda: ((np.zeros((2, 3)), np.arange(3.0)), {})]
