# Code that runs as what a local held dies, in an iteration that the code of an earlier one is for.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
RNG = np.random.default_rng(7)


def f(x, y, l, d, o, z, r, n, *, m, s):
    log = []
    for i3 in range(len(x)):

        def g5(w=2):
            try:
                yield iter
            finally:
                log.append("end")

        v9 = g5(int)
        next(v9, None)
        o = Item(functools.partial(o, v9)())
        log.append(1)
        y + 1
    return log


CALLS = [
    lambda: (
        lambda x: (
            (
                np.arange(66.0).reshape((2, 33)).astype(np.float32),
                x,
                [0] * 5,
                {"k": "v", "j": [1]},
                Item(1),
                map(abs, [1, -2]),
                RNG,
                3,
            ),
            dict(m=1, s="ab"),
        )
    )(np.arange(66.0).reshape((2, 33)).astype(np.float32))
]
