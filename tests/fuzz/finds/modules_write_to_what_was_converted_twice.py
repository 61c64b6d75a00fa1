# Two conversions as one read the operand of the first, which eager's second call has not saved.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
NET = Net()


def f(x, y, l, d, o, z, n, m, s):
    log = []
    x = x.detach().numpy().sum()
    for v3 in NET.layers:
        log.append(v3(y.sum(-1).sum(0)))
        left_alone(next(z, 0))
        y.index_fill_(0, torch.tensor([0]), m)
    return log, x


CALLS = [
    lambda: (
        (
            (torch.arange(51.0).reshape((17, 3)).to(torch.float64)).requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.bool),
            [3, [4], 5],
            {"k": "v", "j": [1]},
            Item([1]),
            iter({"k": [1]}.items()),
            5,
            1,
            "s",
        ),
        {},
    ),
    lambda: (
        (
            (torch.arange(6.0).reshape((2, 3)).to(torch.float64)).requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.bool),
            [3, [4], 5],
            {"k": "v", "j": [1]},
            Item(None),
            iter(range(5)),
            5,
            1,
            "s",
        ),
        {},
    ),
    lambda: (
        (
            (torch.arange(99.0).reshape((33, 3)).to(torch.float64)).requires_grad_(),
            torch.arange(1.0).reshape(()).to(torch.bool),
            [3, [4], 5],
            {"s": 0, 1: 2},
            Item("w"),
            map(abs, [1, -2]),
            -1,
            1,
            "sks",
        ),
        {},
    ),
]
