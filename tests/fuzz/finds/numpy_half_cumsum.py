# NumPy rounds the running sums of halves at each step.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
RNG = np.random.default_rng(7)


def f(x, y, l, d, o, z, r, n, m, s):
    a12 = y + r.normal()
    d["a"] = np.cumsum(a12.astype(np.float16))


CALLS = [
    lambda: (
        lambda x: (
            (
                np.arange(34.0).reshape((2, 17)).astype(np.int64)[..., ::-1],
                x,
                [(1, 2), {}],
                {"k": 1},
                Item(None),
                iter({"k": 1, "j": 2}),
                np.random.default_rng(3),
                0,
                1,
                "sks",
            ),
            {},
        )
    )(np.arange(34.0).reshape((2, 17)).astype(np.int64)[..., ::-1])
]
