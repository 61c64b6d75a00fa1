# A generator that waits is a default of a class's own: nothing that is compiled for the class holds it.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, d):
    log = []

    def waits():
        try:
            yield d
        finally:
            log.append("end")

    made = waits()
    next(made, None)

    class Own(typing.NamedTuple):
        b: object = made

    own = Own(d)
    return log


CALLS = [lambda: ((torch.arange(3.0), {}), {})]
