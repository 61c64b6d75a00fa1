from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(l, d, o, z, n, m, s):
    log = []
    with contextlib.suppress(ZeroDivisionError):
        for m in steps(n, log):
            try:
                raise KeyError(1) from ValueError(s)
            except Exception:
                if m == 1:
                    unbound_name
    return log


CALLS = [
    lambda: (([1], {}, Item("w"), iter(()), 1, 0, ""), {}),
    lambda: (([1], {}, Item("w"), iter(()), 2, 0, ""), {}),
    lambda: (([1], {}, Item("w"), iter(()), 3, 0, "ab"), {}),
]
