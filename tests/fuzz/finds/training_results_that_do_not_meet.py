# A backward of one result leaves what another one needs, in this function and in those behind it.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, n):
    x = x * 2
    if n:
        x = x.sin()
    print(end="")
    a, b = x + 1, y.sum()
    if n > 1:
        a = a * a
    b.backward()
    if n > 2:
        b = a.sum()
        print(end="")
        b.backward(retain_graph=True)
    return a


def arguments(n, same):
    x = torch.arange(4.0).requires_grad_()
    return (x, x if same else torch.arange(4.0).requires_grad_(), n), {}


CALLS = [lambda n=n, same=same: arguments(n, same) for n in range(4) for same in (False, True)]
