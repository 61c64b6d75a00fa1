# A tensor takes complex numbers: comparing with one is no comparison of objects.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, n):
    number = complex(n, 1)
    log = [x[0] == number, number != x[0], number == x, x[0] + number]
    try:
        log.append(number in [row for row in x])
    except RuntimeError as error:
        log.append(error.args)
    try:
        x[0] < number
    except RuntimeError as error:
        log.append(error.args)
    return log


CALLS = [lambda: ((torch.arange(6.0).reshape(2, 3), 1), {}), lambda: ((torch.arange(2.0).reshape(2, 1), 1), {})]
