# NumPy makes an int of a scalar that it writes into integers: NaN and what is out of range are errors.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y):
    log = []
    for value in (x.max(), x.min(), x[0] * 2, x.sum()):
        for key in (0, slice(1, None), ..., [0]):
            try:
                y[key] = value
            except (ValueError, OverflowError) as error:
                log.append(str(error))
            log.append(y.tolist())
    return log


CALLS = [
    lambda: ((np.array([1.5, np.nan]), np.arange(3)), {}),
    lambda: ((np.array([1e30, 2.5]), np.arange(3)), {}),
    lambda: ((np.array([1e30, -2.5]), np.arange(3.0)), {}),
    lambda: ((np.array([1.5, 2.5]), np.arange(3) > 1), {}),
]
