# Counter.__or__ does not know dicts; the dict's own operator gives a dict then.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(n):
    log = []
    counter = collections.Counter([1, n])
    print(end="")
    for one, other in ((counter, {"m": 3}), ({1: 5}, counter), (counter, counter)):
        log.append((one | other, type(one | other)))
    return log


CALLS = [lambda: ((2,), {}), lambda: ((1,), {})]
