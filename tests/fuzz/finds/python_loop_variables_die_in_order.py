# What a loop that was left to Python may have bound dies with the function, before the locals behind it.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def close(log, what):
    try:
        yield what
    finally:
        log.append(what)


def f(log, n):
    for i in range(n):
        first = close(log, i)
        next(first)
        while i < 1:
            second = close(log, "second")
            next(second)
            print(end="")
            i += 1
            del second
    third = close(log, "third")
    next(third)
    first = n
    if n > 2:
        return i
    return log[:]


CALLS = [lambda n=n: (([], n), {}) for n in (0, 1, 2, 3, 0)]
