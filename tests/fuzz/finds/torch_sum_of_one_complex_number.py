# PyTorch begins with 0: of -0 the sum is 0.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    z = torch.complex(x, x)
    return [str([t.sum(), t.mean(), t.sum(-1), t.cumsum(-1)]) for t in (z, z.conj())], z.conj().sum().item()


CALLS = [
    lambda: ((torch.full((1,), -0.0),), {}),
    lambda: ((torch.full((2, 1), -0.0),), {}),
    lambda: ((-torch.zeros(1),), {}),
]
