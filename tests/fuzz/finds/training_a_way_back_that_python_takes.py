# Python goes back through the header of a loop that is cut: the other ways out are its own then.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l, d, o, n, *, m, s):
    for m in range(3):
        try:
            for i3, v4 in enumerate([1 for v in range(3)]):
                y.view(-1)[0] = m
        except RuntimeError:
            pass


CALLS = [
    lambda: (
        (
            (torch.arange(6.0).reshape((2, 3)).to(torch.float64) * 2).detach().clone().requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.float32).requires_grad_(),
            [1, 2],
            {},
            Item(None),
            1,
        ),
        dict(m=2, s="ab"),
    )
]
