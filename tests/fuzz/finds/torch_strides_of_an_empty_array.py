# NumPy gives an array of a tensor without items strides of 0, and its tensor has them.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    array = x.numpy()
    y = torch.from_numpy(array)
    return y.T.stride(), y.stride(), x.stride(), array.strides, array.sum()


CALLS = [lambda: ((torch.ones(0, 3),), {}), lambda: ((torch.ones(3, 0),), {}), lambda: ((torch.ones(2, 3),), {})]
