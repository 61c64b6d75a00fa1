# What overflows on the way back went through zeros.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l, d, o, z, n, m, s):
    for i3 in range(len(x)):
        y, x = (1, ((x + 1) % 3).prod() - (y + 1))
    return x


CALLS = [
    lambda: (
        (
            torch.arange(132.0).reshape((4, 33)).to(torch.float32).requires_grad_(),
            torch.arange(66.0).reshape((2, 33)).to(torch.bool),
            [3, [4], 5],
            {},
            Item(1),
            iter([1, 2, 3]),
            1,
            0,
            "ab",
        ),
        {},
    )
]
