# What torch.vmap gives is a tensor of its own, though the function's `q * 1` is compiled to nothing: its argument may be written to.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y):
    r = torch.vmap(lambda q: q * 1)(y) * x
    y.unsqueeze_(0)
    return r


CALLS = [lambda: ((torch.ones(3, requires_grad=True), torch.arange(3)), {})]
