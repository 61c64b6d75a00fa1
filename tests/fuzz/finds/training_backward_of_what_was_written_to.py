# Eager refuses what an operator has saved and the program has written to; what is compiled has copies, or refuses too.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    y = x.prod()
    y += 1
    y.sum().backward()


CALLS = [lambda: ((torch.arange(3.0).requires_grad_(),), {})]
