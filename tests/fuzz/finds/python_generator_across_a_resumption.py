# A generator that came from before a break: capture stopped in front of the function's own instructions.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(log):
    produced = steps(1, log)
    for n in produced:
        raise


CALLS = [lambda: (([],), {})]
