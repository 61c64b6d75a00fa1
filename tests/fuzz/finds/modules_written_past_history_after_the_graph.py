from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
NET = Net()


def f(x, y, l, d, o, z, n, m, s):
    log = [(y * x).exp().clamp(max=9)]
    a = torch.from_numpy(y.detach().numpy())
    b = y.data
    for layer in NET.layers:
        log.append(layer(a))
    log.append(torch.maximum(x, b))
    cdynamo.graph_break()
    a += 1
    b.clamp_(1, 5)
    return log, a


CALLS = [
    lambda: (
        (
            (torch.arange(6.0).reshape((2, 3))).requires_grad_(),
            torch.arange(3.0).requires_grad_(),
            [],
            {},
            Item(1),
            iter(()),
            1,
            4,
            "ab",
        ),
        {},
    ),
    lambda: (
        (
            (torch.arange(9.0).reshape((3, 3))).requires_grad_(),
            torch.arange(3.0).requires_grad_(),
            [],
            {},
            Item(1),
            iter(()),
            1,
            4,
            "ab",
        ),
        {},
    ),
]
