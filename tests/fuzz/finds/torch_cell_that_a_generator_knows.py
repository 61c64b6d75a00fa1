# A cell that is found in a closure first was no local of the resumed frame: what it held died at the break.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True


def f(x, y, l, d, o, z, n, *, m, s):
    log = []
    a7 = y.ravel()[(y > hash(2)).ravel().sum() :]
    o = Item(next((v for v in list(z) if o)))
    look9 = weakref.ref(o, log)
    a7.squeeze_()
    log.append(look9())
    return log


CALLS = [
    lambda: (
        lambda x: (
            (torch.arange(6.0).reshape((2, 3)).to(torch.float64), x, [3, [4], 5], {}, Item([1]), iter(range(5)), -1),
            dict(m=2, s="ab"),
        )
    )(torch.arange(6.0).reshape((2, 3)).to(torch.float64))
]
