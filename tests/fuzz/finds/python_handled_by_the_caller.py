# A function that is called from an except block: a bare `raise`, and the context of what it raises, are the caller's.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def raises_again(v):
    with Managed(v, swallow=True):
        raise


def raises_its_own(v):
    try:
        {}["k"]
    except KeyError as error:
        v.append(repr(error.__context__))
    try:
        raise ValueError(1)
    except ValueError as error:
        v.append(repr(error.__context__))
    try:
        raise ValueError(2)
    except ValueError as error:
        kept = error.with_traceback(None)
    v.append(repr(kept.__context__))
    return len(v)


def in_a_handler(log):
    try:
        left_alone([])[1]
    except* Exception:

        def inside(v):
            raises_again(v)
            return raises_its_own(v)

        inside(log)
    try:
        left_alone([])[1]
    except IndexError:
        print(end="")
        raises_its_own(log)
        raises_again(log)


def f(log):
    for function in (raises_again, raises_its_own):
        try:
            function(log)
        except RuntimeError as error:
            log.append(str(error))
    in_a_handler(log)
    raises_its_own(log)
    try:
        raises_again(log)
    except RuntimeError as error:
        log.append(str(error))
    return log


CALLS = [lambda: (([],), {})] * 2
