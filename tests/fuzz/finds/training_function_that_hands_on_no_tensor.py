# The second call's argument is None, as is its result.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
WATCHED = []


def f(x, y, l, d, o, z, n, m, s):
    log = []
    for m in range(len(x)):
        with Managed(log, tell=True), Managed(log, swallow=True):

            class Own(torch.autograd.Function):
                @staticmethod
                def forward(ctx, q, w=2):
                    pass

            x = Own.apply(x)
    return log


CALLS = [
    lambda: (
        lambda x: (
            (
                torch.arange(0).reshape((0, 33)).to(torch.float64).T.detach().clone().requires_grad_(),
                x,
                [1, "a", None],
                {},
                Item(None),
                iter("ab"),
                5,
                1,
                "s",
            ),
            {},
        )
    )(torch.arange(0).reshape((0, 33)).to(torch.float64).T.detach().clone().requires_grad_())
]
