# What comes after the break writes to one of two inputs that share memory: an internal error with backends in Python.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, l):
    a = torch.tensor([2, 3, 1])
    l.append(a[1:])
    left_alone(l)
    l.append(x + 1)
    a += 1
    x.copy_(a)


CALLS = [lambda: ((torch.arange(3).reshape(1, 3), [1]), {})]
