# 3.12 makes a cell in the midst of a function, for a variable of a comprehension that a lambda reads.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(n):
    log = []
    for i in range(n):
        log.append([(lambda: v)() for v in range(i)])
        print(end="")
        log.append([(lambda: v)() for v in range(3)])
    left_alone(n)
    log.append([(lambda: v)() for v in left_alone(log)])
    return log


CALLS = [lambda: ((2,), {}), lambda: ((3,), {})]
