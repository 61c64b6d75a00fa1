# The message names what is not there: an object that the graph has no part of, or one that was written to.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(l, o, n):
    log = []
    o.v = n
    for wanted in (n, o, [n], Item(n)):
        try:
            log.append(l.index(wanted))
        except ValueError as error:
            log.append(error.args)
    return log


CALLS = [lambda: (([3, [4], 5], Item(1), 4), {}), lambda: (([3, [4], 5], Item(1), 5), {})]
