# The second backward of one history raises, and the program goes on.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True
NET = Net()


def f(x, y, l, d, o, it, *, n, m, s):
    log = []
    y = NET(x.float())
    for v3 in NET.layers:
        try:
            y.float().sum().backward()
        except Exception as e:
            log.append(repr(e))
    return log


CALLS = [
    lambda: (
        (torch.arange(6.0).reshape(2, 3).to(torch.bool), torch.ones(3), [], {"k": 1}, Item(1), iter([1])),
        dict(n=2, m=2, s=""),
    ),
] * 2
