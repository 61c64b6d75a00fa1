# A variable that inner functions read is the function's own after a graph break, too: reading it unbound is an
# UnboundLocalError, and locals() has what it holds.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


class Base:
    def f(self, n):
        return n


class Derived(Base):
    def f(self, n):
        get = lambda: (self, n)
        print(end="")
        m = super().f(n + 1)
        print(end="")
        return get()[1], super().f(m), type(get()[0]).__name__


def outer(l):
    def inner(n, k):
        log.append(n)
        print(end="")
        both = [lambda: (n, i, k) for i in range(3)]
        eval("1")
        n += 1
        log.append((sorted(locals()), n, eval("n"), both[0]()))
        print(end="")
        del n
        print(sorted(locals()))
        try:
            log.append(n)
        except NameError as error:
            log.append((type(error).__name__, str(error)))
        try:
            both[1]()
        except NameError as error:
            log.append((type(error).__name__, str(error)))
        n = k
        print(sys._getframe().f_locals["n"])
        return both[2]()

    log = l
    result = inner(1, 2)
    eval("1")
    if result == 0:
        bound_never = 1
    log.append((result, Derived().f(3)))
    print(end="")
    for _ in range(2):
        print(end="")
        bound_never += 1
    return lambda: bound_never


def f(l):
    return outer(l)


CALLS = [lambda: (([],), {})] * 2
