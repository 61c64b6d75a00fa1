# An index that is wrong after a write under no_grad: the error has the program's line under callable backends too.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
NET = Net()


def f(x, y, l, d, o, n, *, m, s):
    log = []
    for v2 in NET.layers:
        log.append(v2(torch.arange(3.0)))
        with torch.no_grad():
            NET.linear.weight.mul_(1)
            x = x * 2
            if x[[0, 1]].is_floating_point():
                break
            with torch.no_grad():
                NET.linear.weight.mul_(len(range((2) & 3, 7, 2)))
                log.append(torch.cat([x, y])[:6].data_ptr() == y.data_ptr())
                NET.eval()
    return log, x


CALLS = [
    lambda: (
        (
            (torch.arange(3.0).reshape((1, 3)).to(torch.float32)).requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.int64),
            [(1, 2), {}],
            {},
            Item(None),
            0,
        ),
        dict(m=4, s="ab"),
    ),
    lambda: (
        (
            (torch.arange(3.0).reshape((1, 3)).to(torch.float32)).requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.int64),
            [(1, 2), {}],
            {"k": "v", "j": [1]},
            Item([1]),
            0,
        ),
        dict(m=4, s="ab"),
    ),
    lambda: (
        (
            (torch.arange(3.0).reshape((1, 3)).to(torch.float32)).requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.int64),
            [(1, 2), {}],
            {},
            Item(None),
            0,
        ),
        dict(m=4, s="ab"),
    ),
    lambda: (
        (
            (torch.arange(3.0).reshape((1, 3)).to(torch.float32)).requires_grad_(),
            (torch.arange(3.0).reshape((3,)).to(torch.float64)).requires_grad_(),
            [],
            {"k": "v", "j": [1]},
            Item([1]),
            0,
        ),
        dict(m=4, s="ab"),
    ),
    lambda: (
        (
            (torch.arange(3.0).reshape((1, 3)).to(torch.float32)).requires_grad_(),
            (torch.arange(3.0).reshape((3,)).to(torch.float64)).requires_grad_(),
            [],
            {"k": "v", "j": [1]},
            Item([1]),
            0,
        ),
        dict(m=4, s=""),
    ),
]
