# The same with a manager, and work before it.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, log):
    y = x + 1
    with Managed(log):
        y = y * 2
        sorted(list, key=str)
    return y


CALLS = [lambda: ((np.arange(3.0), []), {})]
