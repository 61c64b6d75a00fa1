# A backward goes to what is behind its own loss alone, where losses share a parameter.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
NET = Net()


def f(x, y, l, d, o, n, *, m, s):
    log = []

    @decorated
    def f2(v, w=1):
        nonlocal o, s

        def f4(v=None, *args, w=len("s"), **named):
            raise Broken(m % 3, extra=apply(max, -m, w))
            log.append(bool((sum([x, y]) > 0).all()))
            v8 = [v, fails(v)]
            return v8

        l9 = sorted([v for v in [1, "a"] if isinstance(NET.layers[0], Scale)], key=lambda v: str(f4(v)))
        return o

    for v11 in NET.layers:
        log.append(v11((x + 1) // 2))
        NET(x.float()).sum().backward()
    return log, x


CALLS = [
    lambda: (
        (
            (torch.arange(0).reshape((0, 3)).to(torch.float64)).requires_grad_(),
            (torch.arange(48.0).reshape((16, 3)).to(torch.float64) * 2).detach().clone().requires_grad_(),
            [(1, 2), {}],
            {"k": 1},
            Item(1),
            1,
        ),
        dict(m=0, s="sks"),
    ),
    lambda: (
        (
            (torch.arange(0).reshape((0, 3)).to(torch.float64)).requires_grad_(),
            (torch.arange(48.0).reshape((16, 3)).to(torch.float64) * 2).detach().clone().requires_grad_(),
            [0] * 5,
            {"k": 1},
            Item(1),
            -1,
        ),
        dict(m=0, s="sks"),
    ),
]
