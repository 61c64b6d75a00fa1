# Slices of a number are a number: PyTorch refuses a source of one dim for it.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y):
    log = []
    for function in (torch.index_add, torch.index_copy):
        for a, b in ((x, y), (y, x)):
            try:
                log.append(function(a, 0, torch.tensor(0), b))
            except (RuntimeError, IndexError) as error:
                log.append(str(error))
    return log


CALLS = [lambda: ((torch.tensor(2.0), torch.ones(1)), {})]
