# What is called with a list that holds itself raises PyTorch's error.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, l):
    l.append(l)
    log = []
    for use in (
        lambda: x.__setitem__(0, l),
        lambda: x.__setitem__(x, l),
        lambda: x[l],
        lambda: torch.tensor(l),
        lambda: x + torch.as_tensor(l),
        lambda: x.reshape(l),
        lambda: np.sum(l),
        lambda: torch.stack(l),
        lambda: x.sum(l),
    ):
        try:
            log.append(use())
        except Exception as error:
            log.append(type(error).__name__)
    l.clear()
    return log


CALLS = [lambda: ((torch.arange(4.0), [3]), {})]
