# It raises all the same; and indices where there are no elements are refused as PyTorch does.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def change(x, i, way):
    if way == 0:
        x[i]
    elif way == 1:
        x.take(i)
    elif way == 2:
        x.index_select(0, i)
    else:
        x.index_fill_(0, i, 1)


def f(x, i, way):
    try:
        change(x, i, way)
        return x + 1
    except (IndexError, RuntimeError) as error:
        return str(error)


CALLS = [
    lambda: ((torch.arange(3.0), torch.tensor([9]), 0), {}),
    lambda: ((torch.arange(3.0), torch.tensor([9]), 1), {}),
    lambda: ((torch.arange(3.0), torch.tensor([1]), 1), {}),
    lambda: ((torch.zeros(0, 3), torch.tensor([0]), 1), {}),
    lambda: ((torch.zeros(0, 3), torch.tensor([0]), 3), {}),
    lambda: ((torch.zeros(0, 3), torch.tensor([0]), 2), {}),
    lambda: ((torch.zeros(3, 0), torch.tensor([9]), 2), {}),
]
