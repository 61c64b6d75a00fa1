# What f13 returns is assigned behind the break, and dies with f13, which is a cell's: after the reference to it.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True
RNG = np.random.default_rng(7)


def f(x, y, l, d, o, z, r, n, *, m, s):
    log = []

    @np.errstate(all="ignore")
    def f13(v, w=1):
        return o

    l = sorted([v for v in [1, "a"] if isinstance(l, (int, str))], key=lambda v: str(f13(v)).split(" at ")[0])
    fuel25 = 3
    while x.sum() and fuel25:
        fuel25 -= 1
    o = Item("v")
    look29 = weakref.ref(o, lambda dead: log.append("dead"))
    return log


CALLS = [
    lambda: (
        (
            np.arange(17.0).reshape((1, 17)).astype(np.bool),
            np.arange(34.0).reshape((2, 17)).astype(np.float64).T,
            [],
            {},
            Item(None),
            iter(()),
            np.random.default_rng(3),
            True,
        ),
        dict(m=1, s="ab"),
    )
]
