# What a cell holds that is no argument's dies after the locals.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l, d, o, z, n, *, m, s):
    log = []

    def g8(w=2):
        try:
            yield w
        finally:
            log.append("end")

    v12 = g8(m)
    next(v12, None)
    produced13 = steps(True, log)
    for n in produced13:
        return (log, o)
    lambda: (v12, v12)


CALLS = [
    lambda: (
        (
            marked(torch.arange(6.0).reshape((2, 3)).to(torch.int64) - 2, 0),
            torch.arange(1.0).reshape(()).to(torch.float32),
            [1, 2],
            {"s": 0, 1: 2},
            Item("w"),
            iter({"k": 1, "j": 2}),
            3,
        ),
        dict(m=2, s=""),
    )
]
