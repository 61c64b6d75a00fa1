# NumPy passes over dims of size 1 in a reshape with a -1: their strides are not those of the array.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l, d, o, z, n, m, s):
    v3 = (lambda q: q.strides)(y.reshape(3, -1))
    return v3


CALLS = [
    lambda: (
        lambda x: (
            (
                np.arange(3.0).reshape((1, 3)).astype(np.float32).T,
                x,
                [1, 2],
                {"k": {"k": 2}},
                Item(None),
                (v for v in [3, 4]),
                3,
                2,
                "",
            ),
            {},
        )
    )(np.arange(3.0).reshape((1, 3)).astype(np.float32).T)
]
