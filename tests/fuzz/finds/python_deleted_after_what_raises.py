# What a local holds where an exception leads back to a cut loop is handed on, though the statement after the broken one deletes it.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(d, s):
    log = []
    for v in [1, math, 1]:
        try:
            produced = steps(2, log)
            v = next(produced)
            made = Item(frozenset)
            look = weakref.WeakMethod(made.bump, lambda dead: log.append("dead"))
            d(s)
            del made
        except Exception as error:
            pass
    return log


CALLS = [lambda: (({"k": 1}, "s"), {})]
