# The text of an exception that comes in: the next call's may have other arguments.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def texts(error):
    return str(error), repr(error), f"{error}", f"{error!r:>20}", "%s %r" % (error, error), [error], len(str(error))


def handled():
    return repr(sys.exc_info()[1]), sys.exception().args


KINDS = [ValueError, KeyError, OSError, Broken]


def f(which, n, log):
    kind = KINDS[which]
    try:
        left_alone([kind])[0].args[0]
        raise kind(*range(n))
    except Exception as error:
        log.append(texts(error))
        log.append(handled())
    for error in (kind(n), kind(n, "s"), kind(), Broken(n, extra=n)):
        log.append(texts(left_alone(error)))
    return log


CALLS = [lambda n=n, kind=kind: ((kind, n, []), {}) for kind in range(4) for n in range(4)]
