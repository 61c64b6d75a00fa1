# A comprehension puts back a variable that is not bound.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(bound):
    if bound:
        v = 1
    while True:
        print(end="")
        w = [v for v in range(3)]
        if len(w) > 2:
            break
    try:
        return v, w
    except UnboundLocalError:
        return w


CALLS = [lambda: ((False,), {}), lambda: ((True,), {})]
