# For no dims at all PyTorch misses the argument, even where the tensor has none.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, name, *dims):
    return getattr(torch.view_as_complex(torch.stack([x, x], -1)), name)(*dims)


NAMES = "permute", "view", "reshape", "expand", "repeat", "flip"
CALLS = [
    *(lambda name=name: ((torch.ones(()), name), {}) for name in NAMES),
    *(lambda name=name: ((torch.ones(1), name, 0), {}) for name in ("permute", "flip")),
]
