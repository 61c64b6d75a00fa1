# What is assumed of a size after it was told is another size in words: of a result that nobody reads, in a loop.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y):
    for _ in range(2):
        y.masked_fill(x.diff() > 0, 0)
        x = torch.arange(3.0)[(x > 1).ravel()[:1].sum() :]
    return x


CALLS = [lambda: ((torch.arange(3.0), torch.ones(2)), {}), lambda: ((torch.arange(3.0) + 2, torch.ones(2)), {})]
