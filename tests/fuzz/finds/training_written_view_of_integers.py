# Of a view of integers as floats a history is its own alone.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True


def f(x, y, l, d, o, z, n, m, s):
    x = (x + 1).sort().values.round().view(torch.float64)
    x.sub_(y.sort().values)
    return x


CALLS = [
    lambda: (
        (
            marked(torch.arange(6.0).reshape((2, 3)).to(torch.bool), 0),
            marked(torch.arange(6.0).reshape((2, 3)).to(torch.float32).requires_grad_(), 0),
            [],
            {"k": 1},
            Item([1]),
            (v for v in [3, 4]),
            -1,
            0,
            "ab",
        ),
        {},
    )
]
