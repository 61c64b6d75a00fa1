# A local that is bound after a break dies before the cells, whose slots come after it.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = False
WATCHED = []


def f(x, y, l, d, o, z, n, *, m, s):
    log = []

    def g6(w=2):
        o4

    x.view(torch.int16)[...] = n
    o4 = Item(2.5)
    look13 = weakref.ref(o4, lambda dead: log.append("dead"))
    return (log, x)


CALLS = [
    lambda: (
        (
            (torch.arange(6.0).reshape((2, 3)).to(torch.float64) - 2).detach().clone().requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.bool),
            [1, "a", None],
            {"s": 0, 1: 2},
            Item(None),
            iter([2.5, [1], None]),
            3,
        ),
        dict(m=4, s="sks"),
    )
]
