# An index out of range is an error also where what was looked up is overwritten, or only its sizes are read.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(y, whole):
    a = y[[0, 1]]
    if not whole:
        return torch.ones_like(a)
    a.add_(1)
    a.copy_(y)
    return a


CALLS = [
    lambda: ((torch.ones(2, 3), True), {}),
    lambda: ((torch.ones(1, 3), True), {}),
    lambda: ((torch.ones(2, 3), False), {}),
    lambda: ((torch.ones(1, 3), False), {}),
]
