# Unfair: what a norm gives is 0, or nearly.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = False


def f(x, y, l, d, o, z, n, m, s):
    l2 = [
        v for v in torch.isin(torch.nn.functional.instance_norm(x.float().reshape(1, 3, -1), eps=1.0), 0) if gives_back
    ]
    return l2


CALLS = [
    lambda: (
        (
            (torch.arange(9.0).reshape((3, 3)).to(torch.float32) * 2).detach().clone().requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.int64),
            [1, "a", None],
            {"k": "v", "j": [1]},
            Item(None),
            iter(()),
            1,
            2,
            "ab",
        ),
        {},
    )
]
