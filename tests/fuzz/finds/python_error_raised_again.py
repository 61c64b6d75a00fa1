# The same with a finally, and with what a handler raises again.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(log):
    try:
        try:
            log.append(1)
            raise KeyError("k")
        finally:
            log.append(2)
    except Exception:
        raise


CALLS = [lambda: (([],), {})]
