# A view by ravel() of one element, or of none, had the strides of the array.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(y):
    rows = y.reshape(4, 4)
    arrays = y[:, None][0], y[::2][:1], y[::2][:0], rows[::4, ::4], rows[::4, :3], rows[::2][:0]
    views = [a.ravel() for a in arrays] + [a.ravel("F") for a in arrays] + [a.reshape(-1) for a in arrays]
    views += [a.reshape(1, -1, 1) for a in arrays if a.size] + [a.reshape(a.shape) for a in arrays]
    views += [a.reshape(0, 3) for a in arrays if not a.size]
    return views, [a.strides for a in views], [a.flatten().strides for a in arrays]


CALLS = [
    lambda: ((np.arange(16.0),), {}),
    lambda: ((np.arange(16.0),), {}),
]
