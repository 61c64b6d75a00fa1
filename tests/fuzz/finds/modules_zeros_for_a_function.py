# The second backward gives None for the first one's result: the first one gets zeros.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
NET = Net()
WATCHED = []


def f(x, y, l, d, o, z, n, *, m, s):

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, w=2):
            return q * w

        @staticmethod
        def backward(ctx, g):
            return (g, None)

    y = Own.apply(x.float().take(torch.tensor(0)))
    x = Own.apply(y >= 3, next(iter([y for v in range(2)]), n))
    return x


CALLS = [
    lambda: (
        (
            torch.arange(12.0).reshape((4, 3)).to(torch.float64).T.detach().clone().requires_grad_(),
            torch.arange(6.0).reshape((2, 3)).to(torch.float32).requires_grad_(),
            [],
            {"k": 1},
            Item(None),
            enumerate(["a", "b"]),
            0,
        ),
        dict(m=1, s="sks"),
    )
]
