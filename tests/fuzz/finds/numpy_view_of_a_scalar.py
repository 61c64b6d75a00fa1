# A copy, since scalars do not change.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(y):
    total = y.sum()
    views = [
        total.ravel(),
        total.reshape(1),
        total.reshape((1, 1)),
        np.atleast_1d(total),
        np.expand_dims(total, 0),
        total[None],
        np.ravel(total),
    ]
    for view in views:
        view += 1
    array = total[...]
    array += 1
    return total, views, array, np.squeeze(total)


CALLS = [lambda: ((np.arange(3.0),), {})]
