# An index that is wrong after a write through .data: the error has the program's line under callable backends too.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True
NET = Net()


def f(x, y, l, d, o, n, *, m, s):
    log = []

    def g2(w=2):
        yield "v"
        for i4 in range(3):
            y = x + m
        yield from [1, "a"][:3]

    for v5 in g2(len(s.partition("s"))):
        a7 = gives_back(Item(x + 1).v[[0, 1]])
        NET.forward = lambda q, by=1: q * by
        v10 = None
        s = s
        NET.linear.weight.data.mul_(0.5)
        del v5
        for v5 in list(list((dict(j=1) | {"m": n}).items()))[:4]:
            for n in range(3):
                x = NET(x.float(), by=n)
                NET.apply(lambda v: log.append(type(v).__name__))
    return log, x


CALLS = [
    lambda: (
        (
            (torch.arange(3.0).reshape((1, 3)).to(torch.float64)).requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.int64) - 2,
            [1, "a", None],
            {"s": 0, 1: 2},
            Item([1]),
            3,
        ),
        dict(m=4, s="sks"),
    ),
    lambda: (
        (
            (torch.arange(3.0).reshape((1, 3)).to(torch.float64)).requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.int64) - 2,
            [1, "a", None],
            {"s": 0, 1: 2},
            Item([1]),
            3,
        ),
        dict(m=4, s="sks"),
    ),
    lambda: (
        (
            (torch.arange(3.0).reshape((1, 3)).to(torch.float64)).requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.int64) - 2,
            [1, "a", None],
            {"s": 0, 1: 2},
            Item([1]),
            3,
        ),
        dict(m=4, s="sks"),
    ),
    lambda: (
        (
            (torch.arange(3.0).reshape((1, 3)).to(torch.float64)).requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.int64) - 2,
            [1, "a", None],
            {"s": 0, 1: 2},
            Item([1]),
            3,
        ),
        dict(m=4, s="sks"),
    ),
]
