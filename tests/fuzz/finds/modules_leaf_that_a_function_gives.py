# The forward gives a leaf that is no argument: it has the history itself.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
NET = Net()
WATCHED = []


def f(x, y, l, d, o, z, n, m, s):
    for v4 in z:

        class Own(torch.autograd.Function):
            @staticmethod
            def forward(ctx, q, w=2):
                return x

            @staticmethod
            def backward(ctx, g):
                return g * 3

        a7 = Own.apply(y)
        y = a7 + m
    return x


CALLS = [
    lambda: (
        (
            torch.arange(3.0).reshape((1, 3)).to(torch.float64).requires_grad_(),
            torch.arange(1.0).reshape((1,)).to(torch.float32).requires_grad_(),
            [(1, 2), {}],
            {"s": 0, 1: 2},
            Item(1),
            map(abs, [1, -2]),
            5,
            4,
            "sks",
        ),
        {},
    )
]
