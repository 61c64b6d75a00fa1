# An array without items that NumPy computes has strides of 0.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True
NET = Net()


def f(x, y, l, d, o, z, n, *, m, s):
    NET.extra = torch.as_tensor(abs(y.detach().numpy())).stride()


CALLS = [
    lambda: (
        lambda x: (
            (torch.arange(0).reshape((0, 3)).to(torch.bool), x, [(1, 2), {}], {}, Item(1), iter({1, 2}), True),
            dict(m=4, s=""),
        )
    )(torch.arange(0).reshape((0, 3)).to(torch.bool))
]
