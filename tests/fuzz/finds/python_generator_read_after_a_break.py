# The same with a generator that is only looked at.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(l, o):
    log = []
    produced = steps(3, log)
    log.append(next(produced))
    o.w = 2.5
    i = left_alone(len(l))
    produced
    return log, i


CALLS = [lambda: (([1], Item(1)), {})]
