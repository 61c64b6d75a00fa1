# What NumPy makes of constants is an array of its own in each call, and not an object that no operator takes.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(v, n):
    made = [np.concatenate(((1, n), (3, 4))), np.sort((3, 1, 2)), np.sqrt((1.0, 4.0)), np.float32((1, 2))]
    spread = np.broadcast_to(v, (2, 3))
    try:
        made.append([1] + spread)
    except TypeError as error:
        print(error, end=";")
    made[0][0] = 7
    return made, spread


CALLS = [
    lambda: ((np.float64(2.0), 2), {}),
    lambda: ((np.float64(2.0), 2), {}),
]
