# The complex result of a Function's forward is no view.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
WATCHED = []


def f(x, y, l, d, o, z, n, m, s):

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, w=2):
            return q * w

    a3 = Own.apply(torch.view_as_complex(torch.stack([x.float(), x.float()], -1)))
    a3.expand(2, -1, -1).add_(1)


CALLS = [
    lambda: (
        (
            torch.arange(0).reshape((0, 3)).to(torch.float32).requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.float32).requires_grad_(),
            [],
            {"s": 0, 1: 2},
            Item(1),
            iter((1, "a")),
            3,
            4,
            "",
        ),
        {},
    )
]
