# A row that was made under no_grad requires no grad until it is told to.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True


def f(x, y, l, d, o, z, n, m, s):
    with torch.no_grad():
        for x in x:
            pass
    x.requires_grad_()
    x += x


CALLS = [
    lambda: (
        (
            torch.arange(9.0).reshape((3, 3)).to(torch.float32).requires_grad_(),
            (torch.arange(3.0).reshape((3,)).to(torch.float32) * 2).detach().clone().requires_grad_(),
            [1, "a", None],
            {},
            Item("w"),
            iter((1, "a")),
            2,
            1,
            "sks",
        ),
        {},
    )
]
