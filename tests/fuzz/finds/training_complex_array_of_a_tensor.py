# torch.from_numpy of a complex array that the graph holds raised.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l, d, o, z, n, m, s):
    log = []
    with Managed(log, tell=True), Managed(log, swallow=1):
        a3 = y.cfloat()
        a5 = torch.from_numpy(a3.detach().numpy())
    return log


CALLS = [
    lambda: (
        lambda x: (
            (
                marked(torch.arange(66.0).reshape((2, 33)).to(torch.float64).requires_grad_(), -1),
                x,
                [1, 2],
                {"k": "v", "j": [1]},
                Item([1]),
                iter("ab"),
                True,
                4,
                "sks",
            ),
            {},
        )
    )(marked(torch.arange(66.0).reshape((2, 33)).to(torch.float64).requires_grad_(), -1))
]
