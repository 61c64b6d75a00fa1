# What is gathered of a conjugate is no conjugate's view.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l, d, o, z, n, m, s):
    a3 = torch.complex(x.float(), y.float()).conj()[[0, 1]]
    a3.view(torch.int32)[0] += 1


CALLS = [
    lambda: (
        (
            marked(torch.arange(99.0).reshape((3, 33)).to(torch.bool) * 2, 0),
            marked(torch.arange(33.0).reshape((33,)).to(torch.int64) - 2, 0),
            [(1, 2), {}],
            {"s": 0, 1: 2},
            Item(None),
            iter(range(5)),
            0,
            1,
            "",
        ),
        {},
    )
]
