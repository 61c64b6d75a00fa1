# Unfair: the sign of a NaN that two operators hand on is the kernels'.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True


def f(x, y, l, d, o, z, n, *, m, s):
    if (
        ((lambda q: torch.nn.functional.binary_cross_entropy(q.sigmoid(), q.float()))(x.float()) * 8)
        .round()
        .view(torch.int32)
        > True
    ).any():
        raise Broken


CALLS = [
    lambda: (
        (
            torch.arange(0).reshape((0, 3)).to(torch.float64),
            torch.arange(3.0).reshape((3,)).to(torch.float32).T,
            [],
            {"s": 0, 1: 2},
            Item("w"),
            iter(range(5)),
            -1,
        ),
        dict(m=1, s=""),
    )
]
