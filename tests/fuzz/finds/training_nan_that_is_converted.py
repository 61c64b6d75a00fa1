# Which NaN a conversion to bfloat16 gives is the kernel's.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    a = (x * 0 / 0).to(torch.bfloat16)
    b = torch.empty(x.shape, dtype=torch.bfloat16)
    b.copy_(x * 0 / 0)
    return a, b, a.view(torch.int16), b.view(torch.int16)


CALLS = [
    lambda: ((torch.arange(33.0),), {}),
]
