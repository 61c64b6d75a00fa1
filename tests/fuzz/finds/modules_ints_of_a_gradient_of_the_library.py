# The gradient comes with its negative bit set: PyTorch's operators compute it, by ints that are no sizes.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True
NET = Net()


def f(x, y, l, d, o, z, n, m, s):
    log = []

    class Own(enum.Enum):
        pass

    for i10 in range(3):
        y = NET(x.float(), by=i10)
        log.append(torch.complex(x.float(), y.float()).conj().float().reshape(1, 3, -1))
    return log


CALLS = [
    lambda: (
        (
            torch.arange(0).reshape((0, 3)).to(torch.float32).requires_grad_(),
            torch.arange(3.0).reshape((3,)).to(torch.float32).requires_grad_(),
            [1, "a", None],
            {"k": "v", "j": [1]},
            Item("w"),
            iter({"k": 1, "j": 2}),
            2,
            1,
            "ab",
        ),
        {},
    )
]
