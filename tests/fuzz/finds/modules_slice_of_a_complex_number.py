# A slice of a complex tensor without dims is eager's error; the pairs are no dim of it.
# seed 8200005544, backend native
# call 2: error
#   compiled: ('TypeError', 'iteration over a 0-d tensor', [('f', 15)], None, None, False, ())
#   plain:    ('IndexError', 'slice() cannot be applied to a 0-dim tensor.', [('f', 15)], None, None, False, ())
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True
NET = Net()


def f(x, y, l, d, o, z, n, m, s):
    log = []
    for s2, v3 in NET.named_parameters():
        log.append((s2, v3.shape))
        assert (x < 30).all(), s
    if x.sum() > len(l):
        a7 = NET(x.float(), by=m)
        for i9, a10 in enumerate(
            torch.view_as_complex(torch.stack([(lambda q: q * 2)(y + 1).float(), x.min().float()], -1))[:3]
        ):
            del NET.extra
    else:
        NET.forward = lambda q, by=1: q * by
    return log, v3, s2, x


CALLS = [
    lambda: (
        (
            (torch.arange(0).reshape((0, 3)).to(torch.float64) - 2).detach().clone().requires_grad_(),
            (torch.arange(1.0).reshape((1,)).to(torch.float32)).requires_grad_(),
            [(1, 2), {}],
            {"k": {"k": 2}},
            Item(1),
            iter({"k": [1]}.items()),
            3,
            1,
            "ab",
        ),
        {},
    ),
    lambda: (
        (
            (torch.arange(0).reshape((0, 3)).to(torch.float64) - 2).detach().clone().requires_grad_(),
            (torch.arange(1.0).reshape((1,)).to(torch.float32)).requires_grad_(),
            [(1, 2), {}],
            {"k": {"k": 2}},
            Item(1),
            iter({"k": [1]}.items()),
            3,
            1,
            "ab",
        ),
        {},
    ),
    lambda: (
        (
            (torch.arange(12.0).reshape((4, 3)).to(torch.float64) - 2).detach().clone().requires_grad_(),
            (torch.arange(1.0).reshape(()).to(torch.float32)).requires_grad_(),
            [(1, 2), {}],
            {"k": {"k": 2}},
            Item(None),
            iter({"k": [1]}.items()),
            3,
            0,
            "ab",
        ),
        {},
    ),
]
