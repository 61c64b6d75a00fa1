# A tuple that holds itself through a dataclass's repr.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(l, d, o, z, n, *, m, s):
    l.append((lambda *a, **k: a)(Record(3).add(l), q="v"))
    v19, *l20 = map(str, l)
    return l20


CALLS = [lambda: (([(1, 2), {}], {"s": 0, 1: 2}, Item(None), iter([2.5, [1], None]), 5), dict(m=1, s="sks"))]
