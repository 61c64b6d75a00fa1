# A size that is the smaller of two dynamic sizes.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    return x.clamp(x.diagonal().shape[0], 5), x.diagonal() * min(x.shape)


CALLS = [
    lambda: ((torch.arange(6.0).reshape(2, 3),), {}),
    lambda: ((torch.arange(20.0).reshape(4, 5),), {}),
    lambda: ((torch.arange(30.0).reshape(6, 5),), {}),
    lambda: ((torch.arange(21.0).reshape(3, 7),), {}),
]
