# A WeakMethod that has a callback of the program's dies where it does in Python: after the object that stands before it in the frame.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(d, n):
    log = []
    called = next
    d.update(j=n)
    made = Item(called)
    look = weakref.WeakMethod(made.bump, lambda dead: log.append("dead"))
    return log


CALLS = [lambda: (({"k": "v", "j": [1]}, 1), {})]
