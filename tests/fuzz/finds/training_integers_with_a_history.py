# What is written to a tensor of integers gives it a history, with which eager computes no more.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y):
    x[...] = y[0][0] * True
    x.index_fill_(0, torch.tensor([0]), 3)
    return x


CALLS = [
    lambda: ((torch.zeros(2, 3, dtype=torch.int64), torch.arange(6.0).reshape((2, 3)).requires_grad_()), {}),
]
