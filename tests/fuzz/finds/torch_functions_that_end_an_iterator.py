# StopIteration out of what an iterator calls (map, filter, iter with a sentinel) ends the iterator.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, l, last):
    x = x + 1

    def stops(v):
        if v == last:
            raise StopIteration(v)
        return v

    mapped = map(stops, l)
    log = [
        list(map(stops, l)),
        list(filter(stops, l)),
        list(iter(lambda: stops(next(taken)), 9)) if (taken := iter(l)) else 0,
    ]
    for _ in range(3):
        try:
            log.append(next(mapped))
        except StopIteration:
            log.append("stop")
    log.append([v for v in map(stops, l)])
    for pair in zip(l, map(stops, l)):
        log.append(pair)
    return log, x


CALLS = [lambda last=last: ((torch.arange(3.0), [1, 2, 3], last), {}) for last in (None, 2, 1)]
