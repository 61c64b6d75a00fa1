# A container takes what an iterator gives one by one: the iterator may look at it, write to it, or raise half-way.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, l, fails):
    log = []
    x = x + 1

    def noted():
        for i in l:
            log.append("in")
            if i == fails:
                raise ValueError
            yield i

    for take in (log.extend, lambda values: operator.iadd(log, values)):
        try:
            take(noted())
        except ValueError:
            log.append("err")

    unique, table = {0}, {}

    def looking():
        for i in l:
            if i == fails:
                raise ValueError
            if 2 in unique:
                unique.add("x")
            yield i, len(table)

    for take in (lambda pairs: unique.update(pair[0] for pair in pairs), table.update):
        try:
            take(looking())
        except ValueError:
            unique.add("err")
    rest = set(l)
    rest.difference_update(i for i in l if len(rest) > 2)
    more = [1, 2, 3]
    more.extend(map(lambda v: more.append(9) or v, l))
    largest = max((i for i in l if not log.append(i)), key=lambda v: log.append("key") or -v)
    return log, sorted(map(str, unique)), table, sorted(rest), more, largest, x


CALLS = [lambda fails=fails: ((torch.arange(3.0), [1, 2, 3], fails), {}) for fails in (None, 2)]
