# Written to under no_grad, a row of a loop has no history that PyTorch would show; the results of the same piece have theirs, and what the
# piece has counted stands.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
NET = Net()


def f(x, z):
    next(z) + 1
    for row in x * 2:
        with torch.set_grad_enabled(hasattr(NET, "extra")):
            row.neg_()
        y = NET(x)
        for v, w in row:
            print(y)
    return y, v, w


CALLS = [
    lambda: ((torch.arange(9.0).reshape(3, 3).requires_grad_(), iter([1])), {}),
    lambda: ((torch.arange(9.0).reshape(3, 3).requires_grad_(), iter(["s"])), {}),
]
