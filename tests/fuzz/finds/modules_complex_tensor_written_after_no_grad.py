# What is read as pairs where no_grad holds is written to once that is over.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
NET = Net()


def f(x, y, l, d, o, z, n, m, s):
    y, x = (x.clone().cfloat(), x)
    with torch.no_grad():
        x.copy_(y)
    y.narrow(0, 0, 1).fill_(1)


CALLS = [
    lambda: (
        (
            torch.arange(51.0).reshape((17, 3)).to(torch.float64).requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.float64).requires_grad_(),
            [1, "a", None],
            {"k": {"k": 2}},
            Item([1]),
            map(abs, [1, -2]),
            2,
            4,
            "sks",
        ),
        {},
    )
]
