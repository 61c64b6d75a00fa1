# So are the rows of a loop.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y):
    for x in x[:3]:
        with torch.no_grad():
            for x in y:
                x.add_((y + 1).mean())
        x.fill_(2)
    return x


CALLS = [
    lambda: ((torch.arange(6.0).reshape((2, 3)).requires_grad_(), torch.arange(3.0).requires_grad_()), {}),
]
