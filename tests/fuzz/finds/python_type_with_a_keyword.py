# It takes none.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    return type(x, w=1)


CALLS = [lambda: ((2,), {})]
