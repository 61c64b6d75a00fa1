# The items of an iterator that is an argument are named for what fx accepts as a name.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = False
NET = Net()


def f(x, y, l, d, o, z, n, m, s):
    locals
    l7 = [v(x) for v in NET.layers]


CALLS = [
    lambda: (
        (
            torch.arange(3.0).reshape((1, 3)).to(torch.float64).T.detach().clone().requires_grad_(),
            torch.arange(1.0).reshape(()).to(torch.float64).requires_grad_(),
            [(1, 2), {}],
            {"s": 0, 1: 2},
            Item(1),
            iter(()),
            3,
            1,
            "ab",
        ),
        {},
    )
]
