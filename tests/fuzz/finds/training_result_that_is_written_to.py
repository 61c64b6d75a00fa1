# What eager has not saved may be written to after a graph has given it back.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def clipped(y):
    return y + 1, (y + 2).clip(1, 4)


def f(y, n):
    x = y + n
    z = (x + 1).clip(n, 4)
    z.detach().add_(1)
    x.add_(z)
    a, b = left_alone(clipped)(x)
    a.mul_(2)
    c = a.relu()
    print(end="")
    a.add_(1)
    return x + a + b + c


CALLS = [lambda n=n: ((torch.arange(3.0).requires_grad_(), n), {}) for n in range(3)]
