# What is computed is as wide as the real tensor is.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l, d, o, z, n, *, m, s):
    SHARED.append(y.cfloat() + x)


CALLS = [
    lambda: (
        (
            torch.arange(17.0).reshape((1, 17)).to(torch.float64),
            torch.arange(17.0).reshape((17,)).to(torch.float32),
            [],
            {"k": {"k": 2}},
            Item(None),
            iter([2.5, [1], None]),
            3,
        ),
        dict(m=4, s="sks"),
    )
]
