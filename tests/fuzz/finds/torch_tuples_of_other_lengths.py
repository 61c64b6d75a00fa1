# Tuples compare their items before their lengths, and a tensor's truth value may be ambiguous; lists compare lengths first.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l):
    log = [[x, y] == [None], [x] != [], (x,) == (x, y), (1, x) == (2,), () == (x,), x.shape == (9, x), (3, 2) == (3,)]
    try:
        log.append((x, y) == (None,))
    except TypeError:
        log.append("TypeError")
    log.append((1, x) != (1, 0, 3))
    return log


CALLS = [
    lambda: ((torch.arange(6.0).reshape(2, 3), torch.arange(3.0), []), {}),
    lambda: ((torch.arange(6.0).reshape(2, 3), torch.arange(3.0), [1]), {}),
    lambda: ((torch.arange(1.0), torch.arange(3.0), [1]), {}),
]
