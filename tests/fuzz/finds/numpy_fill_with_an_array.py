# ndarray.fill takes one value.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    for value in (x[:1], x, [1], (2.0,), x.sum(), x[0], 3):
        y = x * 2
        try:
            y.fill(value)
        except ValueError as error:
            print(error, end=";")
        print(y.tolist(), end=";")
    return y


CALLS = [
    lambda: ((np.arange(3.0),), {}),
]
