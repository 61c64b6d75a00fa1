# seed 8600307591, backend eager
# call 0: error
#   compiled: ('RuntimeError', 'cdynamo: internal error while compiling f (<program 8600307591>:5): RuntimeError: an argument has no form in a graph: NumPy scalar int i0', [], None, None, False, ())
#   plain:    None
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l, d, o, z, n, m, s):
    for v18 in np.arange(1):
        np.int64(left_alone(1)) + y


CALLS = [
    lambda: (
        (
            np.arange(6.0).reshape((2, 3)).astype(np.bool).T,
            np.arange(6.0).reshape((2, 3)).astype(np.float64) * 2,
            [0] * 5,
            {"s": 0, 1: 2},
            Item(None),
            iter({"k": 1, "j": 2}),
            1,
            1,
            "s",
        ),
        {},
    )
]
