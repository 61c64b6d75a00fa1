# The same with an assignment.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(y):
    y[1] = y.sum(1)


CALLS = [lambda: ((np.ones((2, 3)),), {})]
