# A break where a comprehension puts a local aside (3.12 and later): it holds nothing afterwards.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True


def f(x, y, l, d, o, z, n, m, s):
    log = []
    d[((s if False else s) if (m < n < n) else str(n))] = (not (m > 1)) or "v"
    v3 = next(z)
    y += 1
    log.extend(zip(l, [1, "a"]))

    def f7(v, w=hash(2) % 5):
        nonlocal x, l

        def f9(v, w=sum(map(lambda v: 1, l))):
            nonlocal x
            x.data.add_(1)
            return o

        l11 = [f9(v) for v in [][:3]]
        return vars(types.SimpleNamespace(v=s, w=(y + 1).ndim))

    v12 = f7(set(Pair(v3, 0)._replace(left=o)).symmetric_difference([x, y]), w=len(range(m, 7, 2)))
    with managed(log) as i14:

        def f16(v, w=ord(s[0])):
            nonlocal s, m
            x.clamp_(w, 5)
            return operator.attrgetter("v")(o)

        try:
            pass
        except Broken:
            o.v = z
    for m in range(3):
        try:
            y.copy_((((x % 3).prod() * next(z, 2)) * True))
        except Broken:
            fuel21 = 3
            while y.sum() < 20 and fuel21 > 0:
                fuel21 -= 1
                d.update(j=types.SimpleNamespace(v=2.5))
        finally:
            x = y % 3
    return log, x


CALLS = [
    lambda: (
        (
            marked(torch.arange(9.0).reshape((3, 3)).to(torch.bool), 0),
            marked(torch.arange(6.0).reshape((2, 3)).to(torch.float32) * 2, 0),
            [0] * 5,
            {},
            Item(1),
            iter(range(5)),
            True,
            0,
            "s",
        ),
        {},
    ),
    lambda: (
        (
            marked(torch.arange(9.0).reshape((3, 3)).to(torch.bool), 0),
            marked(torch.arange(6.0).reshape((2, 3)).to(torch.float32) * 2, 0),
            [0] * 5,
            {},
            Item(1),
            iter(range(5)),
            True,
            0,
            "s",
        ),
        {},
    ),
    lambda: (
        lambda x: (
            (
                marked(torch.arange(6.0).reshape((2, 3)).to(torch.float64) - 2, 0),
                x,
                [0] * 5,
                {},
                Item(1),
                iter({"k": 1, "j": 2}),
                True,
                0,
                "",
            ),
            {},
        )
    )(marked(torch.arange(6.0).reshape((2, 3)).to(torch.float64) - 2, 0)),
    lambda: (
        (
            marked(torch.arange(6.0).reshape((2, 3)).to(torch.float64) - 2, 0),
            torch.arange(1.0).reshape(()).to(torch.float32),
            [0] * 5,
            {"s": 0, 1: 2},
            Item(1),
            enumerate(["a", "b"]),
            True,
            0,
            "",
        ),
        {},
    ),
    lambda: (
        (
            marked(torch.arange(9.0).reshape((3, 3)).to(torch.bool), 0),
            marked(torch.arange(6.0).reshape((2, 3)).to(torch.float32) * 2, 0),
            [0] * 5,
            {},
            Item(1),
            iter(range(5)),
            True,
            0,
            "s",
        ),
        {},
    ),
]
