# super() reads the first argument in the first slot, where a resumed frame had a cell: a value whose hash breaks the graph.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = False
NET = Net()


def f(x, y, l, d, o, z, n, m, s):
    log = []
    NET.layers[1].register_buffer("more", y.detach())

    def f3(v, w=sum(v.numel() for v in NET.parameters())):
        nonlocal z
        y.zero_()
        x[0] = int("12")
        return v

    NET.extra = set(Pair(*(1, "s")[:1], right=o)).symmetric_difference(list(d))
    log.append(repr(sys.exc_info()[1]))
    try:
        pass
    except KeyError:
        with torch.no_grad():
            NET.linear.weight.mul_(n)
            i12 = unbound_name
    else:
        with torch.no_grad():
            for m in range(3):
                y = NET(x.float(), by=n)
                pass
    return log, x


CALLS = [
    lambda: (
        (
            torch.arange(51.0).reshape((17, 3)).to(torch.bool),
            (torch.arange(51.0).reshape((17, 3)).to(torch.float32).T).detach().clone().requires_grad_(),
            [(1, 2), {}],
            {"k": "v", "j": [1]},
            Item("w"),
            iter(range(5)),
            2,
            2,
            "ab",
        ),
        {},
    ),
    lambda: (
        lambda x: (
            (
                torch.arange(3.0).reshape((1, 3)).to(torch.bool),
                x,
                [3, [4], 5],
                {"k": "v", "j": [1]},
                Item("w"),
                iter(range(5)),
                1,
                2,
                "ab",
            ),
            {},
        )
    )(torch.arange(3.0).reshape((1, 3)).to(torch.bool)),
]
