# A Python int beside integers has to be in the range of their dtype (NEP 50); a comparison takes any.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, n):
    small = x.astype(np.int8)
    for operate in (
        lambda: small + n,
        lambda: n * small,
        lambda: np.maximum(small, n),
        lambda: small.astype(np.uint8) & -n,
        lambda: small**n,
        lambda: np.where(x > 1, small, n),
        lambda: np.full_like(small, n),
        lambda: np.clip(small, -n, n),
        lambda: small < n,
        lambda: n == small,
    ):
        try:
            y = operate()
            print(y.dtype, y.tolist(), end=";")
        except OverflowError as error:
            print(error, end=";")
    return small


CALLS = [
    lambda: ((np.arange(3.0), 3), {}),
    lambda: ((np.arange(3.0), 5), {}),
    lambda: ((np.arange(3.0), 127), {}),
    lambda: ((np.arange(3.0), 128), {}),
    lambda: ((np.arange(3.0), 300), {}),
    lambda: ((np.arange(3.0), -200), {}),
]
