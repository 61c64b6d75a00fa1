# NumPy makes an array of whatever stands beside one of its scalars.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, n, o):
    number, integer = np.float64(2), np.int64(3)
    for operate in (
        lambda: n * x * number,
        lambda: x * number,
        lambda: number - x,
        lambda: x**number,
        lambda: -x + number,
        lambda: n * integer,
        lambda: integer // n,
        lambda: integer == n,
        lambda: n < integer,
        lambda: number + [x],
        lambda: [n] + number,
        lambda: (n,) * integer,
        lambda: [n] == number,
        lambda: o in [number],
        lambda: number + o,
        lambda: max(number, x),
        lambda: sum([number, x]),
    ):
        try:
            y = operate()
            print(type(y).__name__, y, end=";")
        except Exception as error:
            print(type(error).__name__, error, end=";")
    return number * x


CALLS = [
    lambda: ((1.5, 2, Item(1)), {}),
    lambda: ((2.5, 3, Item(1)), {}),
    lambda: ((3.5, 4, Item(1)), {}),
]
