# A NumPy scalar among the arguments of a call in a graph of PyTorch.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    a = left_alone(x.numpy().sum())
    return torch.where(x > 1, x, a), torch.add(x, a)


CALLS = [
    lambda: ((torch.arange(3.0),), {}),
    lambda: ((torch.arange(3.0),), {}),
]
