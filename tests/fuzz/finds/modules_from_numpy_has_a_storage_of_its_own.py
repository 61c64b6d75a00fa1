# PyTorch does not know that what from_numpy gives shares memory with another tensor.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
NET = Net()


def f(x, y, l, d, o, n, *, m, s):
    log = []
    x = torch.from_numpy(y.detach().numpy())
    NET.apply(lambda v: log.append(type(v).__name__))
    log.append(y.round().data.data_ptr() == x.data_ptr())
    try:
        torch.add(y.squeeze()[1:], 1, out=x)
    finally:
        del o.v
    return log, x


CALLS = [
    lambda: (
        (
            marked((torch.arange(6.0).reshape((2, 3)).to(torch.float64)).requires_grad_(), -1),
            marked(torch.arange(6.0).reshape((2, 3)).to(torch.int64) * 2, -1),
            [1, "a", None],
            {"k": "v", "j": [1]},
            Item("w"),
            0,
        ),
        dict(m=1, s="ab"),
    ),
    lambda: (
        (
            marked((torch.arange(6.0).reshape((2, 3)).to(torch.float64)).requires_grad_(), -1),
            marked(torch.arange(6.0).reshape((2, 3)).to(torch.int64) * 2, -1),
            [1, "a", None],
            {"k": "v", "j": [1]},
            Item("w"),
            0,
        ),
        dict(m=1, s="ab"),
    ),
    lambda: (
        lambda x: (
            (
                marked((torch.arange(6.0).reshape((2, 3)).to(torch.float64)).requires_grad_(), -1),
                x,
                [1, "a", None],
                {"k": "v", "j": [1]},
                Item("w"),
                0,
            ),
            dict(m=4, s="ab"),
        )
    )(marked((torch.arange(6.0).reshape((2, 3)).to(torch.float64)).requires_grad_(), -1)),
    lambda: (
        lambda x: (
            (
                marked((torch.arange(6.0).reshape((2, 3)).to(torch.float64)).requires_grad_(), -1),
                x,
                [1, "a", None],
                {"k": "v", "j": [1]},
                Item("w"),
                0,
            ),
            dict(m=4, s="ab"),
        )
    )(marked((torch.arange(6.0).reshape((2, 3)).to(torch.float64)).requires_grad_(), -1)),
]
