# The second operand's rows are half of `x`'s, and stretched where that is one: other elements were read.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y):
    return y + x[::2]


CALLS = [
    lambda rows=rows, others=others: (
        (np.arange(3.0 * rows).reshape(rows, 3), np.arange(3.0 * others).reshape(others, 3)),
        {},
    )
    for rows, others in ((8, 4), (6, 3), (2, 3), (2, 5), (10, 5), (2, 1), (3, 2))
]
