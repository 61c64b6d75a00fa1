# The array itself where there is nothing to do, and scalars from views of no dims.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y):
    same = [v.squeeze() is v for v in (x, y)] + [x.conj() is x, x.real is x, np.squeeze(x) is x]
    total = x.sum()
    scalars = [np.flip(total), np.flip(y), total.reshape(()), total.squeeze(), np.roll(total, 1), np.roll(y, 1)]
    copied = x[0, ::-1].ravel()
    copied += 1
    return same, scalars, copied, (x > 1).conj(), x


def g(x, y):
    for change in (lambda v: v.swapaxes(0, -1), lambda v: np.moveaxis(v, 0, 0), lambda v: np.split(v, 1), round):
        try:
            change(y)
        except (TypeError, ValueError, IndexError) as error:
            print(type(error).__name__, error)
        else:
            print("none")


h, f = f, lambda *arrays: (h(*arrays), g(*arrays))
CALLS = [lambda: ((np.arange(6.0).reshape(2, 3), np.array(4.0)), {})]
