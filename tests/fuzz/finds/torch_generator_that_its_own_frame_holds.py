# A suspended generator that what its own frame holds holds: it goes with a garbage collection, and so do its cells.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, o, n):
    before = x.view(-1).sum().item()
    made = None

    def steps_with_itself(w=2):
        def itself():
            return (before, made)

        first, *rest = itself()
        kept = [rest] if n else itself
        yield o
        yield first, kept

    made = steps_with_itself()
    next(made, None)
    if n > 1:
        next(made)


CALLS = [lambda n=n: ((torch.arange(6.0), Item(None), n), {}) for n in range(3)]
