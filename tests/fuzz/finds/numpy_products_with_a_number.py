# The memory order of numpy.dot and inner with a number: the BLAS makes an array in C order.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x):
    integers, half = x.astype(np.int64), x.astype(np.float16)
    vectors = [g(a[0], b[0]) for g in (np.dot, np.inner) for a in (x, integers) for b in (x > 1, integers)]
    return vectors, [g(a, b) for g in (np.dot, np.inner) for a in (x, integers, half) for b in (a.sum(), 2)]


CALLS = [
    lambda: ((np.arange(6.0).reshape(2, 3).T,), {}),
]
