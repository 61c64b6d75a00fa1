# Its function was called twice to make it: once for the cell, once for the result.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f():
    def make(w=2):
        yield produced

    produced = make()
    other = (other for _ in range(2))
    return produced, other


CALLS = [lambda: ((), {})]
