from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(l, d, o, z, n, m, s):
    log = [list(enumerate(l, n))]
    z = enumerate(o.double, l[0])
    return log, z


CALLS = [
    lambda: (([0] * 5, {}, Item([1]), iter([1, 2, 3]), True, 0, "sks"), {}),
    lambda: (([{}, {}], {}, Item([1]), iter([1, 2, 3]), 0, 0, "ab"), {}),
]
