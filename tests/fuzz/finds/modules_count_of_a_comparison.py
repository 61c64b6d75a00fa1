# A comparison of an int that the graph reads was equal to no number.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
NET = Net()


def f(x, y, l, d, o, z, n, m, s):
    v3 = y.sum().item() > 1
    with torch.no_grad():
        NET.linear.weight.mul_([1, "a"].count(v3))


CALLS = [
    lambda: (
        (
            torch.arange(3.0).reshape((1, 3)).to(torch.bool),
            torch.arange(3.0).reshape((3,)).to(torch.bool).T,
            [],
            {"k": 1},
            Item([1]),
            iter({1, 2}),
            0,
            1,
            "",
        ),
        {},
    )
]
