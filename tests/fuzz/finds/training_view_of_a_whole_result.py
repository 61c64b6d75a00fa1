# A view of a result did not see that the result requires grad from later on.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l, d, o, z, n, m, s):
    x = torch.from_numpy(x.detach().numpy())
    a7 = x.ravel()
    x.requires_grad_()
    return a7


CALLS = [
    lambda: (
        (
            torch.arange(66.0).reshape((2, 33)).to(torch.float64).requires_grad_(),
            torch.arange(33.0).reshape((33,)).to(torch.int64) * 2,
            [0] * 5,
            {"s": 0, 1: 2},
            Item("w"),
            (v for v in [3, 4]),
            0,
            2,
            "sks",
        ),
        {},
    )
]
