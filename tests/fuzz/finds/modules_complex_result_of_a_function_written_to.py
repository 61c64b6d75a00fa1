# What a complex operator gives is no view, however its pairs were laid out.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True
NET = Net()
WATCHED = []


def f(x, y, l, d, o, z, n, *, m, s):

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, w=2):
            return q * w

    x = Own.apply(x.unfold(0, 1, 1).cfloat())
    v4 = {x, x}
    [q.add_(1) for q in v4]


CALLS = [
    lambda: (
        (
            (torch.arange(9.0).reshape((3, 3)).to(torch.float64) * 2).detach().clone().requires_grad_(),
            (torch.arange(3.0).reshape((3,)).to(torch.float32) * 2).detach().clone().requires_grad_(),
            [1, "a", None],
            {"s": 0, 1: 2},
            Item([1]),
            iter(()),
            5,
        ),
        dict(m=2, s="sks"),
    )
]
