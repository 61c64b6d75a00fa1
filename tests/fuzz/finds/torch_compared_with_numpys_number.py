# A tensor and a NumPy number in one graph: they were compared by identity.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y):
    number = y.detach().numpy().sum()
    other = torch.from_numpy(x.detach().numpy())
    return other == number, other + number


CALLS = [lambda: ((torch.arange(9.0).reshape(3, 3).long(), torch.arange(3.0)), {})]
