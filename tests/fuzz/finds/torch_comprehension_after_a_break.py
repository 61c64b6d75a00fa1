# A generator's end in a comprehension, whose variable is unbound before.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(y, s, n, m):
    log = []
    v7 = (gives_back(None) for v in range(2))
    y.squeeze_()

    def g16(w=2):
        yield v7

    log.append([v for v in g16(all([s, n > 1]) + (m if False else 2)) if False])


CALLS = [lambda: ((torch.arange(3.0), "s", -1, 1), {})]
