# A view of a leaf that is made under no_grad is another leaf, which may not be written to in grad mode.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y):
    with torch.no_grad():
        y = y[:1]
        y //= 2
    x[(y.clone() * True) > 0] = 3
    y.clamp_(0, 5)
    return x


CALLS = [
    lambda: ((torch.arange(3.0), torch.arange(6.0).reshape((2, 3)).requires_grad_()), {}),
]
