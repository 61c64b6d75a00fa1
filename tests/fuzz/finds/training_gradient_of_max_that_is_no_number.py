# Elements that are not the greatest have a gradient of 0, though that of the greatest is no number.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l, d, o, z, n, m, s):
    log = []
    log.append(y.max().abs().sqrt())
    l.extend([l, next((lambda q: steps(q, log))(m % 3), [*"v"])])
    for i4 in range(3):
        pass
    return log, x


CALLS = [
    lambda: (
        (
            marked((torch.arange(6.0).reshape((2, 3)).to(torch.float32)).requires_grad_(), -1),
            (torch.arange(1.0).reshape(()).to(torch.float32) - 2).detach().clone().requires_grad_(),
            [3, [4], 5],
            {"k": 1},
            Item([1]),
            iter({1, 2}),
            -1,
            1,
            "",
        ),
        {},
    ),
    lambda: (
        (
            marked(torch.arange(6.0).reshape((2, 3)).to(torch.bool).T, -1),
            marked((torch.arange(3.0).reshape((3,)).to(torch.float32) - 2).detach().clone().requires_grad_(), -1),
            [1, 2],
            {"s": 0, 1: 2},
            Item([1]),
            iter([1, 2, 3]),
            -1,
            1,
            "s",
        ),
        {},
    ),
]
