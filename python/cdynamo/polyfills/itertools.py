"""itertools as generators, as its documentation states them.

A function does what the constructor of the iterator does, and returns a generator that waits for its first item. What
such a generator stands for is said at its head, so that a compiled function gives its caller the iterator itself.
"""

import itertools
import sys
from operator import index

_ENDED = object()


def stands_for(kind, *, made_by=None):
    """The class of the iterator; what makes one, of the generator's arguments: the class itself where nothing else is
    named, NotImplemented where nothing does."""

    def mark(generator):
        generator.kind = kind
        generator.made_by = kind if made_by is None else made_by
        return generator

    return mark


@stands_for(itertools.chain)
def chain(*iterables):
    for iterable in iterables:
        yield from iterable


def chain_from_iterable(iterables):
    return _chain_from_iterable(iter(iterables))


@stands_for(itertools.chain, made_by=itertools.chain.from_iterable)
def _chain_from_iterable(iterables):
    for iterable in iterables:
        yield from iterable


def repeat(object, times=_ENDED):
    return _repeat_for_ever(object) if times is _ENDED else _repeat(object, index(times))


@stands_for(itertools.repeat)
def _repeat_for_ever(object):
    while True:
        yield object


@stands_for(itertools.repeat)
def _repeat(object, times):
    for _ in range(times):
        yield object


def count(start=0, step=1):
    if not (_is_number(start) and _is_number(step)):
        raise TypeError("a number is required")
    return _count(start, step)


def _is_number(value):
    if isinstance(value, (int, float, complex)):
        return True
    return any([hasattr(type(value), name) for name in ("__int__", "__float__", "__index__")])


@stands_for(itertools.count)
def _count(start, step):
    while True:
        following = start + step
        yield start
        start = following


def cycle(iterable):
    return _cycle(iter(iterable))


@stands_for(itertools.cycle)
def _cycle(iterator):
    saved = []
    for item in iterator:
        yield item
        saved.append(item)
    while saved:
        yield from saved


def accumulate(iterable, func=None, *, initial=None):
    return _accumulate(iter(iterable), func, initial)


def _make_accumulate(iterator, func, initial):
    return itertools.accumulate(iterator, func, initial=initial)


@stands_for(itertools.accumulate, made_by=_make_accumulate)
def _accumulate(iterator, func, initial):
    total = initial
    if initial is None:
        try:
            total = next(iterator)
        except StopIteration:
            return
    yield total
    for item in iterator:
        total = total + item if func is None else func(total, item)
        yield total


def islice(iterable, *args):
    if not args:
        raise TypeError("islice expected at least 2 arguments, got 1")
    if len(args) > 3:
        raise TypeError(f"islice expected at most 4 arguments, got {len(args) + 1}")
    bounds = slice(*args)
    start, stop, step = _bound(bounds.start, 0), _bound(bounds.stop, None), _bound(bounds.step, 1)
    if stop == -1:
        raise ValueError("Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if start < 0 or (stop is not None and stop < 0):
        raise ValueError("Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if step < 1:
        raise ValueError("Step for islice() must be a positive integer or None.")
    return _islice(iter(iterable), start, stop, step)


def _bound(given, otherwise):
    """-1: it is no index."""
    if given is None:
        return otherwise
    if type(given) is int:
        return given if given <= sys.maxsize else -1
    try:
        return index(given)
    except (TypeError, ValueError, OverflowError):
        return -1


@stands_for(itertools.islice)
def _islice(iterator, start, stop, step):
    position = 0
    wanted = start
    while stop is None or position < stop:
        if stop is not None and wanted >= stop:
            # The items up to `stop` are consumed, as itertools does.
            for _ in range(stop - position):
                try:
                    next(iterator)
                except StopIteration:
                    return
            return
        try:
            item = next(iterator)
        except StopIteration:
            return
        if position == wanted:
            yield item
            wanted += step
        position += 1


def starmap(function, iterable):
    return _starmap(function, iter(iterable))


@stands_for(itertools.starmap)
def _starmap(function, iterator):
    for args in iterator:
        yield function(*args)


def takewhile(predicate, iterable):
    return _takewhile(predicate, iter(iterable))


@stands_for(itertools.takewhile)
def _takewhile(predicate, iterator):
    for item in iterator:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate, iterable):
    return _dropwhile(predicate, iter(iterable))


@stands_for(itertools.dropwhile)
def _dropwhile(predicate, iterator):
    for item in iterator:
        if not predicate(item):
            yield item
            break
    yield from iterator


def filterfalse(function, iterable):
    return _filterfalse(function, iter(iterable))


@stands_for(itertools.filterfalse)
def _filterfalse(function, iterator):
    for item in iterator:
        if not (item if function is None else function(item)):
            yield item


def compress(data, selectors):
    return _compress(iter(data), iter(selectors))


@stands_for(itertools.compress)
def _compress(data, selectors):
    for item, selected in zip(data, selectors):
        if selected:
            yield item


def pairwise(iterable):
    return _pairwise(iter(iterable))


@stands_for(itertools.pairwise)
def _pairwise(iterator):
    try:
        previous = next(iterator)
    except StopIteration:
        return
    for item in iterator:
        yield previous, item
        previous = item


def zip_longest(*iterables, fillvalue=None):
    return _zip_longest([iter(iterable) for iterable in iterables], fillvalue)


def _make_zip_longest(iterators, fillvalue):
    return itertools.zip_longest(*iterators, fillvalue=fillvalue)


@stands_for(itertools.zip_longest, made_by=_make_zip_longest)
def _zip_longest(iterators, fillvalue):
    ended = [False] * len(iterators)
    while True:
        row = []
        for i in range(len(iterators)):
            item = fillvalue
            if not ended[i]:
                item = next(iterators[i], _ENDED)
                if item is _ENDED:
                    ended[i] = True
                    item = fillvalue
            row.append(item)
        if all(ended):
            return
        yield tuple(row)


def product(*iterables, repeat=1):
    repeat = index(repeat)
    if repeat < 0:
        raise ValueError("repeat argument cannot be negative")
    pools = [tuple(iterable) for iterable in iterables] * repeat
    return _product(pools)


def _make_product(pools):
    return itertools.product(*pools)


@stands_for(itertools.product, made_by=_make_product)
def _product(pools):
    if all(pools):
        yield from _rows(pools)


def _rows(pools):
    if not pools:
        yield ()
        return
    for row in _rows(pools[:-1]):
        for item in pools[-1]:
            yield row + (item,)


def permutations(iterable, r=None):
    pool = tuple(iterable)
    if r is None:
        r = len(pool)
    if not isinstance(r, int):
        raise TypeError("Expected int as r")
    return _permutations(pool, _not_negative(r))


@stands_for(itertools.permutations)
def _permutations(pool, r):
    size = len(pool)
    if r > size:
        return
    indices = list(range(size))
    cycles = list(range(size, size - r, -1))
    while True:
        yield tuple([pool[k] for k in indices[:r]])
        for i in range(r - 1, -1, -1):
            cycles[i] -= 1
            if cycles[i] > 0:
                j = size - cycles[i]
                indices[i], indices[j] = indices[j], indices[i]
                break
            indices[i:] = indices[i + 1 :] + indices[i : i + 1]
            cycles[i] = size - i
        else:
            return


def combinations(iterable, r):
    r = index(r)
    pool = tuple(iterable)
    return _combinations(pool, _not_negative(r))


@stands_for(itertools.combinations)
def _combinations(pool, r):
    size = len(pool)
    if r > size:
        return
    indices = list(range(r))
    while True:
        yield tuple([pool[k] for k in indices])
        for i in range(r - 1, -1, -1):
            if indices[i] < size - r + i:
                indices[i:] = range(indices[i] + 1, indices[i] + 1 + r - i)
                break
        else:
            return


def combinations_with_replacement(iterable, r):
    r = index(r)
    pool = tuple(iterable)
    return _combinations_with_replacement(pool, _not_negative(r))


@stands_for(itertools.combinations_with_replacement)
def _combinations_with_replacement(pool, r):
    last = len(pool) - 1
    if r and last < 0:
        return
    indices = [0] * r
    while True:
        yield tuple([pool[k] for k in indices])
        for i in range(r - 1, -1, -1):
            if indices[i] < last:
                indices[i:] = [indices[i] + 1] * (r - i)
                break
        else:
            return


def _not_negative(r):
    if r < 0:
        raise ValueError("r must be non-negative")
    return r


def groupby(iterable, key=None):
    return _groupby(iter(iterable), key)


class _Groups:
    """What a groupby and its groups share: an item that belongs to no group yet, the last key, the newest group."""

    __slots__ = ("iterator", "function", "item", "key", "newest")

    def __init__(self, iterator, function):
        self.iterator = iterator
        self.function = function
        self.item = self.key = _ENDED
        self.newest = 0

    def read(self):
        item = next(self.iterator, _ENDED)
        if item is _ENDED:
            return False
        self.key = item if self.function is None else self.function(item)
        self.item = item
        return True

    def continues(self, key):
        return key is self.key or key == self.key


@stands_for(itertools.groupby)
def _groupby(iterator, function):
    groups = _Groups(iterator, function)
    key = _ENDED
    while True:
        groups.newest += 1
        while groups.key is _ENDED or groups.continues(key):
            if not groups.read():
                return
        key = groups.key
        yield key, _group(groups, key, groups.newest)


@stands_for(type(next(itertools.groupby([None]))[1]), made_by=NotImplemented)
def _group(groups, key, number):
    while groups.newest == number and (groups.item is not _ENDED or groups.read()) and groups.continues(key):
        item = groups.item
        groups.item = _ENDED
        yield item


def _batch_size(n):
    n = index(n)
    if n < 1:
        raise ValueError("n must be at least one")
    return n


if sys.version_info >= (3, 13):

    def batched(iterable, n, *, strict=False):
        n = _batch_size(n)
        return _batched(iter(iterable), n, bool(strict))

    def _make_batched(iterator, n, strict):
        return itertools.batched(iterator, n, strict=strict)

elif sys.version_info >= (3, 12):

    def batched(iterable, n):
        n = _batch_size(n)
        return _batched(iter(iterable), n, False)

    def _make_batched(iterator, n, strict):
        return itertools.batched(iterator, n)


if sys.version_info >= (3, 12):

    @stands_for(itertools.batched, made_by=_make_batched)
    def _batched(iterator, n, strict):
        while batch := tuple(islice(iterator, n)):
            if strict and len(batch) != n:
                raise ValueError("batched(): incomplete batch")
            yield batch


def tee(iterable, n=2):
    n = index(n)
    if n < 0:
        raise ValueError("n must be >= 0")
    iterator = iter(iterable)
    read = []
    return tuple([_tee(iterator, read) for _ in range(n)])


@stands_for(type(itertools.tee([])[0]), made_by=NotImplemented)
def _tee(iterator, read):
    position = 0
    while True:
        if position == len(read):
            item = next(iterator, _ENDED)
            if item is _ENDED:
                return
            read.append(item)
        yield read[position]
        position += 1


@stands_for(type(iter(int, 0)), made_by=NotImplemented)
def matches(found):
    """What re.Pattern.finditer gives."""
    yield from found
