# numpy.clip promotes its three operands together; a number for an array is one of its own dtype.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    bounds = [0, 0.5, True, np.float32(1), x.astype(np.int8), None]
    return [np.clip(a, low, x) for a in (x > 0, x.astype(np.int8), 3) for low in bounds]


CALLS = [
    lambda: ((np.arange(3.0).astype(np.float32),), {}),
]
