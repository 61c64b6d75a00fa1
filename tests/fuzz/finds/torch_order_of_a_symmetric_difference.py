# Of what an error quotes: a set that has lost elements keeps the places of the others.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = False


def f(x, y, l, d, o, z, n, m, s):
    log = []
    x.add_((y * True))
    x = y * 2
    try:
        for n, v5 in enumerate(list(y.shape)[:4]):
            v5 = [v5, 1.5 * (1)]
            x.index_fill_(0, torch.tensor([0]), l.index(set((n, 1)).symmetric_difference(l)))
    except KeyError as error3:
        raise Broken([1, "a"].count(apply(twice, "v"))) from error3
    return log, x


CALLS = [
    lambda: (
        (
            marked(torch.arange(12.0).reshape((4, 3)).to(torch.float32), -1),
            marked(torch.arange(3.0).reshape((3,)).to(torch.float32).T, -1),
            [(1, 2), {}],
            {"s": 0, 1: 2},
            Item([1]),
            iter([1, 2, 3]),
            True,
            2,
            "ab",
        ),
        {},
    ),
    lambda: (
        lambda x: (
            (
                marked(torch.arange(68.0).reshape((4, 17)).to(torch.float32), -1),
                x,
                [(1, 2), {}],
                {"s": 0, 1: 2},
                Item([1]),
                iter([1, 2, 3]),
                True,
                0,
                "ab",
            ),
            {},
        )
    )(marked(torch.arange(68.0).reshape((4, 17)).to(torch.float32), -1)),
    lambda: (
        (
            marked(torch.arange(12.0).reshape((4, 3)).to(torch.float32), -1),
            marked(torch.arange(3.0).reshape((3,)).to(torch.float32).T, -1),
            [(1, 2), {}],
            {"s": 0, 1: 2},
            Item([1]),
            iter([1, 2, 3]),
            True,
            2,
            "ab",
        ),
        {},
    ),
    lambda: (
        lambda x: (
            (
                marked(torch.arange(34.0).reshape((2, 17)).to(torch.float32), -1),
                x,
                [1, "a", None],
                {"s": 0, 1: 2},
                Item([1]),
                iter([1, 2, 3]),
                -1,
                0,
                "",
            ),
            {},
        )
    )(marked(torch.arange(34.0).reshape((2, 17)).to(torch.float32), -1)),
    lambda: (
        (
            marked(torch.arange(12.0).reshape((4, 3)).to(torch.float32), -1),
            marked(torch.arange(3.0).reshape((3,)).to(torch.float32).T, -1),
            [(1, 2), {}],
            {"s": 0, 1: 2},
            Item([1]),
            iter([1, 2, 3]),
            True,
            2,
            "ab",
        ),
        {},
    ),
]
