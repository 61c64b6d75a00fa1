# Of True and 1, which are equal, the one of the smaller set stays.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(n):
    some = {1, 2} & {n, 1}
    some &= {1.0, 2, 3}
    return some, {1, 2} & {n}, {n} & {1, 2}, {n}.intersection({1}), frozenset([n]) & {1, 2}


CALLS = [lambda: ((True,), {}), lambda: ((1,), {})]
