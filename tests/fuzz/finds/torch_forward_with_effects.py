# A backend in Python called the forward, and what it had appended was appended once more.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
WATCHED = []


def f(x):
    log = []

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, w=2):
            log.append(range)
            print("forward", end=";")
            return q * w

        @staticmethod
        def backward(ctx, g):
            return g * 3, None

    WATCHED.append(weakref.ref(Own))
    a = Own.apply(x * x, 1)
    return log, a


CALLS = [lambda: ((torch.arange(6.0).reshape((2, 3)),), {})] * 2
