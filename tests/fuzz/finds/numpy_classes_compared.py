# Classes compared with other objects: what a class does not know, the other operand or the metaclass says.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


class Meta(type):
    def __lt__(cls, other):
        return ("less", cls.__name__)

    def __eq__(cls, other):
        return other == 3

    def __hash__(cls):
        return 1


class Made(metaclass=Meta):
    pass


class Equal:
    def __eq__(self, other):
        return ("equal", other is int)


def f(x, log):
    kinds = [type(x), np.float32, int, type(x[0]), Made, Item]
    others = [0, 3, None, "s", np.float32, np.float64, int, type(x), x.dtype, x[0], Made, Equal()]
    for kind in kinds:
        for other in others:
            for compare in (operator.eq, operator.ne, operator.lt, operator.ge):
                try:
                    log.append(compare(kind, other))
                except TypeError as error:
                    log.append(str(error))
    return log


CALLS = [lambda: ((np.arange(3.0), []), {}), lambda: ((np.arange(3.0, dtype=np.float32), []), {})]
