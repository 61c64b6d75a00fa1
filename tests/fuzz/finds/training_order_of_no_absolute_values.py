# The absolute values of complex numbers lie as these do, where there are none.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l, d, o, z, n, *, m, s):
    l2 = x.cfloat().abs().to(torch.uint8).view(torch.int32)


CALLS = [
    lambda: (
        lambda x: (
            (
                torch.arange(0).reshape((0, 15)).to(torch.float64).T.detach().clone().requires_grad_(),
                x,
                [0] * 5,
                {"s": 0, 1: 2},
                Item(None),
                map(abs, [1, -2]),
                True,
            ),
            dict(m=2, s="ab"),
        )
    )(torch.arange(0).reshape((0, 15)).to(torch.float64).T.detach().clone().requires_grad_())
]
