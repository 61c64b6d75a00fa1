# The second backward raises under backends in Python, and the count of the calls before is kept.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True
NET = Net()


def f(x, y, l, d, o, z, n, m, s):
    for i2, a15 in enumerate(x.float().clamp(min=1)):
        NET(a15.float()).sum().backward()


CALLS = [
    lambda: (
        (
            torch.arange(9.0).reshape((3, 3)).to(torch.float64).requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.float32).requires_grad_(),
            [0] * 5,
            {"k": {"k": 2}},
            Item("w"),
            iter("ab"),
            1,
            2,
            "ab",
        ),
        {},
    ),
    lambda: (
        (
            torch.arange(0).reshape((0, 3)).to(torch.bool),
            torch.arange(3.0).reshape((3,)).to(torch.bool),
            [0] * 5,
            {"k": {"k": 2}},
            Item("w"),
            iter("ab"),
            1,
            2,
            "ab",
        ),
        {},
    ),
]
