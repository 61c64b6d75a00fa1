# A local that is a generator which waits in a `try` is overwritten: its handlers run there, not at the next graph break.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(l, d, o, n, *, m, s):
    log = []

    def g3(w=2):
        try:
            yield w
        finally:
            log.append("end")

    v11 = g3(len)
    next(v11, None)
    cdynamo.graph_break()
    v11, *l = {1, 2}
    with Managed(log, tell=True), Managed(log, swallow=n) as v11:
        v11 = g3(m)
        log.append(next(v11))
        with Managed(log) as v11:
            pass
    v7 = g3(3)
    log.append((next(v7), lambda: v7)[0])
    cdynamo.graph_break()
    for i15, v7 in enumerate([1]):
        log.append(i15)
    log.extend([7])
    return log


CALLS = [lambda: (([1, 2], {"k": "v", "j": [1]}, Item("w"), True), dict(m=2, s="ab"))] * 2
