# A group that `except*` raises again after a graph break has the lines of its parts alone, as in plain Python.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(l, o):
    try:
        left_alone(1)
        l.remove(o)
    except* ValueError as group:
        raise


CALLS = [lambda: (([1, 2], 3), {})]
