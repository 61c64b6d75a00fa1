# What a generator that captured code has made holds dies with the generator, which may be after the frame's own references.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = True


def f(x, o):
    log = []
    o = Item(dict)
    look = weakref.ref(o, lambda dead: log.append("dead"))
    cdynamo.graph_break()
    made = (o for v in range(2))
    return log


CALLS = [lambda: ((np.arange(6.0), Item("w")), {})]
