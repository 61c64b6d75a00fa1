# Unfair: a leaf that an out= has given other sizes: the node that collects its gradient was made before, or is made after.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
NET = Net()


def f(x, y, l, d, o, z, n, m, s):
    log = []
    for a5 in x:
        with torch.no_grad():
            torch.add(x.short().view(torch.bfloat16)[None], 1, out=x)
    for v3 in NET.layers:
        log.append(v3(x))
        break
    return log


CALLS = [
    lambda: (
        lambda x: (
            (
                torch.arange(6.0).reshape((2, 3)).to(torch.float32).T.detach().clone().requires_grad_(),
                x,
                [3, [4], 5],
                {"k": "v", "j": [1]},
                Item([1]),
                map(abs, [1, -2]),
                5,
                0,
                "",
            ),
            {},
        )
    )(torch.arange(6.0).reshape((2, 3)).to(torch.float32).T.detach().clone().requires_grad_())
]
