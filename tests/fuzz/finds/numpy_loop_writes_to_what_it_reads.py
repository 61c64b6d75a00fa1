# An item is a copy of what the array holds when the loop comes to it; with `...` it is none.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(y):
    seen = []
    for x in y:
        y *= 2
        seen.append(x)
    for i, x in enumerate(y):
        y.fill(i)
        seen.append(x)
    it = iter(y)
    seen.append(next(it))
    y += 1
    print(end="")
    seen += it
    seen += [y[..., 0], y[0, ...], y[()], y[...][0]]
    y += 1
    return seen, [v + 1 for v in y]


CALLS = [lambda: ((np.arange(3.0),), {}), lambda: ((np.arange(4),), {})]
