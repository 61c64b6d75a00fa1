# A write through a view as bfloat16 leaves the other bits as they are.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True


def f(x, y, l, d, o, z, n, m, s):
    log = []

    def g2(w=2):
        nonlocal z
        v = yield w
        l.append(x)
        w = yield v, v
        yield w

    v4, *l = g2(3)
    a6 = x.view(torch.bfloat16)
    a6[1:] += sum(map(lambda v: 1, list(itertools.islice(l, 1, 3))))
    fuel8 = 3
    while x.sum() < 20 and fuel8 > 0:
        fuel8 -= 1
        if bool(list(range(m % 4))):
            break
    return log, a6, x


CALLS = [
    lambda: (
        (
            marked(torch.arange(3.0).reshape((1, 3)).to(torch.int64) - 2, -1),
            marked(torch.arange(3.0).reshape((3,)).to(torch.float64), -1),
            [],
            {},
            Item("w"),
            zip([1, 2], "ab"),
            1,
            0,
            "ab",
        ),
        {},
    ),
    lambda: (
        (
            marked(torch.arange(3.0).reshape((1, 3)).to(torch.int64) - 2, -1),
            marked(torch.arange(3.0).reshape((3,)).to(torch.float64), -1),
            [],
            {},
            Item("w"),
            zip([1, 2], "ab"),
            1,
            0,
            "ab",
        ),
        {},
    ),
]
