# Tuples are compared item by item, whatever their sizes are.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


class Loud:
    def __eq__(self, other):
        raise ValueError("compared")


def f(n):
    log = [(1, 2) == (1, 2, 3), (1, 2) != (1,), (2,) == (1, 2), [Loud()] == [1, 2]]
    try:
        log.append((n, 2) == (Loud(),))
    except ValueError as error:
        log.append(error.args)
    return log


CALLS = [lambda: ((1,), {}), lambda: ((2,), {})]
