# A tensor has an __index__, so that a sequence can be repeated by it.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, s):
    try:
        return (x.min() > 0) * s, s * (x.max() > 0), (x.max() > 1) * str(x + 1)
    except TypeError as error:
        return repr(error)


CALLS = [lambda n=n: ((torch.arange(n), "ab"), {}) for n in (3.0, 3.0, 1.0)]
