# The same in a handler: the first exception is the second one's context.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    try:
        unknown
    except Exception as error:
        fails(x)


CALLS = [lambda: ((torch.ones(2),), {})]
