# f3 is in a cycle with its cell, and holds the cell of o.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = False


@functools.lru_cache
def KEPT(v, w=1):
    pass


@functools.lru_cache(maxsize=2, typed=True)
def FEW(v):
    pass


def f(x, y, l, d, o, z, n, m, s):
    log = []

    def f3(v, w=len((n, 1))):
        log.append((KEPT(o), FEW(i5)))
        return f3(v, w=min(w, 4) - 1)

    a14 = x.ravel()[((print(end=""), x.all().half())[1] > 1).ravel()[:1].sum() :]
    o = Item(o)
    look15 = weakref.ref(o, lambda dead: log.append("dead"))
    return (log, a14, x)


CALLS = [
    lambda: (
        (
            torch.arange(32.0).reshape((2, 16)).to(torch.bool) * 2,
            torch.arange(1.0).reshape((1,)).to(torch.bool),
            [1, 2],
            {"k": "v", "j": [1]},
            Item([1]),
            iter({"k": [1]}.items()),
            True,
            4,
            "ab",
        ),
        {},
    )
]
