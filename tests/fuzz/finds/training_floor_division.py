# PyTorch has no derivative of it and says so in the backward.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    return x // 2


CALLS = [lambda: ((torch.arange(3.0).requires_grad_(),), {})]
