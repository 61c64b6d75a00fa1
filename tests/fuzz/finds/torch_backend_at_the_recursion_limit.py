# A backend in Python has no room to compile where the calls are as deep as they may be.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l, d, o, z, n, m, s):

    class Local2(Item):
        def bump(self, by=1):
            return {v: y + v for v in range(2)}(Color, apply(o.bump, m))

    o = Local2
    o.bump(0)


CALLS = [
    lambda: (
        (
            torch.arange(12.0).reshape((4, 3)).to(torch.bool),
            torch.arange(3.0).reshape((3,)).to(torch.float64),
            [(1, 2), {}],
            {"s": 0, 1: 2},
            Item(None),
            iter((1, "a")),
            -1,
            1,
            "ab",
        ),
        {},
    )
]
