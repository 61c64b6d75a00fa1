# Rows of integers are views made with others, too: eager refuses the write before it looks at dtypes and shapes.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y):
    for _, row in enumerate(x):
        row.mul_(y)


CALLS = [
    lambda: ((torch.arange(6).reshape(2, 3), torch.arange(3.0, dtype=torch.float64).requires_grad_()), {}),
    lambda: ((torch.arange(2).reshape(1, 2).bool(), torch.arange(2.0).requires_grad_()), {}),
]
