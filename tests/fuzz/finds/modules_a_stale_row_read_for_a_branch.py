# Eager refuses to read a row of what was written to since, also where no gradient is asked for.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True
NET = Net()


def f(x, y, l, d, o, n, *, m, s):
    log = []
    y = x.flip(0)
    NET.__dict__["z"] = m
    for n, a4 in enumerate(y[:3]):
        x.data.add_(1)
    fuel6 = 3
    while a4.sum() < 20 and fuel6 > 0:
        fuel6 -= 1
        y[(x * True) > m] = 2
    NET.double()
    NET.layers[0] = Scale(3)
    NET.forward = lambda q, by=1: q * by

    def f12(v=None, *args, w=m, **named):
        NET.train(l is not l)

        def f15(v, w=(lambda v: v + (3))(w)):
            w // 0
            return sorted({NET.calls, max(w, n)})

        try:
            f15(y.reshape(-1).shape)
        except Exception:
            a4.index_add_(0, torch.tensor([0]), (x * True)[:1])
        return (lambda *a, **k: (a, k))(2.5, q=contextlib.nullcontext(v).__enter__())

    try:
        f12(l)
    except KeyError:
        NET.zero_grad()
    return log, a4, x


CALLS = [
    lambda: (
        (
            marked((torch.arange(9.0).reshape((3, 3)).to(torch.float64)).requires_grad_(), -1),
            marked((torch.arange(3.0).reshape((3,)).to(torch.float32) * 2).detach().clone().requires_grad_(), -1),
            [1, "a", None],
            {"k": {"k": 2}},
            Item(1),
            True,
        ),
        dict(m=0, s=""),
    ),
    lambda: (
        (
            marked((torch.arange(9.0).reshape((3, 3)).to(torch.float64)).requires_grad_(), -1),
            marked((torch.arange(3.0).reshape((3,)).to(torch.float32) * 2).detach().clone().requires_grad_(), -1),
            [1, "a", None],
            {"k": {"k": 2}},
            Item(1),
            True,
        ),
        dict(m=0, s=""),
    ),
]
