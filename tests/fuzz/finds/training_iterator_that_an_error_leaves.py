# What raises an error at once takes nothing from an iterator.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True


def f(x, y, l, d, o, z, n, m, s):
    log = 1
    try:
        return str(z, w=m)
    finally:
        return log


CALLS = [
    lambda: (
        (
            marked(torch.arange(6.0).reshape((2, 3)).to(torch.float32).requires_grad_(), -1),
            marked(torch.arange(3.0).reshape((3,)).to(torch.float64).requires_grad_(), -1),
            [3, [4], 5],
            {"k": {"k": 2}},
            Item([1]),
            iter([1, 2, 3]),
            2,
            4,
            "ab",
        ),
        {},
    )
]
