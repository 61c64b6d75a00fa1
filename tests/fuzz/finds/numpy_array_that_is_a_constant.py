# An array that the capture knows is an argument of a call in a callable backend's graph.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l, d, o, n, m, s):
    y = 1
    y = np.add.reduce(y)
    v = (cdynamo.graph_break(), np.full_like(y[y > m], 0))
    return x + 1, v


CALLS = [lambda m=m: ((np.arange(3.0), np.arange(3.0), [3], {}, Item(1), 1, m, "ab"), {}) for m in (0, 0, 1)]
