# It is a truth value for what is broadcast.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    return x[:1].add(x, alpha=2), x.add(x, alpha=3), torch.zeros_like(x).add(x[0], alpha=2)


CALLS = [lambda: ((torch.tensor([[False, True, True], [True, False, True]]),), {})]
