# A callable backend's graph with NumPy's library fails at the line of the program.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = False


def f(x, y, l, d, o, z, n, m, s):
    np.put(x, 0, n)
    if y[[0, 1]]:
        pass


CALLS = [
    lambda: (
        (
            np.arange(33.0).reshape((1, 33)).astype(np.int64) - 2,
            np.arange(1.0).reshape((1,)).astype(np.bool),
            [(1, 2), {}],
            {"k": {"k": 2}},
            Item("w"),
            iter({"k": [1]}.items()),
            -1,
            2,
            "ab",
        ),
        {},
    )
]
