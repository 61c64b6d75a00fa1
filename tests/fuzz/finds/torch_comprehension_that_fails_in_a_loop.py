# An exception in a comprehension takes what it has put aside, here nothing, off the stack, and the handler goes back to the
# header of a loop that is cut: the variable of the comprehension is not there.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l, d, o, n, m, s):
    for n in range(3):
        try:
            for s in {v: y() for v in range(1)}:
                pass
        except Exception:
            l.append(x + n)
    for n in range(3):
        v = n
        try:
            l.extend([w + y() for v in range(2) for w in range(v + 1)])
        except TypeError:
            l.append(v)
    return l


CALLS = [lambda: ((torch.arange(2.0), torch.arange(3.0).bool(), [3], {}, Item(1), -1, 1, "s"), {})] * 2
