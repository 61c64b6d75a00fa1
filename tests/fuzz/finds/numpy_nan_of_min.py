# Which NaN NumPy's min of NaNs gives, seen in the integers that it is written to.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
RNG = np.random.default_rng(7)


def f(x, y, l, d, o, z, r, n, m, s):
    y = y.view(np.float32)
    y += y.min().cumsum(0)


CALLS = [
    lambda: (
        (
            np.arange(9.0).reshape((3, 3)).astype(np.float32)[..., ::-1],
            np.arange(3.0).reshape((3,)).astype(np.int64) - 2,
            [0] * 5,
            {"s": 0, 1: 2},
            Item([1]),
            iter(range(5)),
            np.random.default_rng(3),
            7,
            2,
            "ab",
        ),
        {},
    )
]
