# A backend in Python called the forward, and what it had written was written back once more.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, w=2):
            x.mul_(2)
            return q * w

        @staticmethod
        def backward(ctx, g):
            return g, None

    return Own.apply(y)


CALLS = [lambda: ((torch.arange(6.0).requires_grad_(), torch.arange(3.0).requires_grad_()), {})] * 2
