# What rounds integers copies them: an axis of one element has the stride that NumPy's copies have.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    return (lambda q: q.strides)(x.round()), (lambda q: q.strides)(np.copy(x)), (lambda q: q.strides)(x + 1)


CALLS = [lambda: ((np.arange(3).reshape(1, 3).T,), {}), lambda: ((np.arange(6).reshape(2, 3, 1).T,), {})]
