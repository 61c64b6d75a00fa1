# A view as integers is no view to autograd, in whatever mode it was made.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
NET = Net()


def f(x, y, l, d, o, z, n, m, s):
    with torch.no_grad():
        a5 = x.view(torch.int16)
    a11 = x.float()

    @np.errstate(all="ignore")
    def f18(v, w=1):
        a5.mul_(NET(a11.clip(2, 4).float(), by=0))

    v3 = Pair(1, right=f18((1, "s")))


CALLS = [
    lambda: (
        (
            torch.arange(6.0).reshape((2, 3)).to(torch.bool) * 2,
            torch.arange(1.0).reshape((1,)).to(torch.bool),
            [],
            {"k": "v", "j": [1]},
            Item(None),
            map(abs, [1, -2]),
            3,
            0,
            "",
        ),
        {},
    )
]
