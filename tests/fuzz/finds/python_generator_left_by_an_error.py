# An error that leaves a loop over a generator closes the generator before the handler runs.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(n, o, tells):
    log = []

    def waits(w=2):
        try:
            yield w
        finally:
            log.append("end")

    with Managed(log, swallow=True):
        for v in waits():
            if tells:
                print(end="")
            return n / o
    try:
        log.append([n, *waits(), n / o])
    except TypeError:
        log.append("handled")
    try:
        for v in waits():
            log.append((lambda: n / o)())
    finally:
        log.append("last")
    return log


CALLS = [lambda o=o, tells=tells: ((1, o, tells), {}) for o in ("s", 2, Item()) for tells in (False, True)]
