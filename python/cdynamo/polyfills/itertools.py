"""itertools as generators, as its documentation states them."""


def chain(*iterables):
    for iterable in iterables:
        yield from iterable


def chain_from_iterable(iterables):
    for iterable in iterables:
        yield from iterable


def repeat(object, times=None):
    if times is None:
        while True:
            yield object
    for _ in range(times):
        yield object


def count(start=0, step=1):
    while True:
        yield start
        start = start + step


def cycle(iterable):
    saved = []
    for item in iterable:
        yield item
        saved.append(item)
    while saved:
        yield from saved


def accumulate(iterable, func=None, *, initial=None):
    iterator = iter(iterable)
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
    if len(args) < 1 or len(args) > 3:
        raise TypeError(f"islice expected at most 4 arguments, got {len(args) + 1}")
    bounds = slice(*args)
    start = 0 if bounds.start is None else bounds.start
    step = 1 if bounds.step is None else bounds.step
    stop = bounds.stop
    if start < 0 or (stop is not None and stop < 0):
        raise ValueError("Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if step < 1:
        raise ValueError("Step for islice() must be a positive integer or None.")
    return _islice(iterable, start, stop, step)


def _islice(iterable, start, stop, step):
    iterator = iter(iterable)
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
    for args in iterable:
        yield function(*args)


def takewhile(predicate, iterable):
    for item in iterable:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate, iterable):
    iterator = iter(iterable)
    for item in iterator:
        if not predicate(item):
            yield item
            break
    yield from iterator


def filterfalse(function, iterable):
    for item in iterable:
        if not (item if function is None else function(item)):
            yield item


def compress(data, selectors):
    for item, selected in zip(data, selectors):
        if selected:
            yield item


def pairwise(iterable):
    iterator = iter(iterable)
    try:
        previous = next(iterator)
    except StopIteration:
        return
    for item in iterator:
        yield previous, item
        previous = item


_ENDED = object()


def zip_longest(*iterables, fillvalue=None):
    iterators = [iter(iterable) for iterable in iterables]
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
    pools = [tuple(iterable) for iterable in iterables] * repeat
    rows = [()]
    for pool in pools:
        rows = [row + (item,) for row in rows for item in pool]
    yield from rows


def permutations(iterable, r=None):
    pool = tuple(iterable)
    size = len(pool)
    r = size if r is None else r
    if r > size or r < 0:
        return
    indices = list(range(size))
    cycles = list(range(size, size - r, -1))
    yield tuple([pool[i] for i in indices[:r]])
    while True:
        for i in range(r - 1, -1, -1):
            cycles[i] -= 1
            if cycles[i] == 0:
                indices.append(indices.pop(i))
                cycles[i] = size - i
            else:
                j = size - cycles[i]
                indices[i], indices[j] = indices[j], indices[i]
                yield tuple([pool[k] for k in indices[:r]])
                break
        else:
            return


def combinations(iterable, r):
    pool = tuple(iterable)
    size = len(pool)
    if r > size or r < 0:
        return
    indices = list(range(r))
    yield tuple([pool[i] for i in indices])
    while True:
        for i in range(r - 1, -1, -1):
            if indices[i] != i + size - r:
                break
        else:
            return
        indices[i] += 1
        for j in range(i + 1, r):
            indices[j] = indices[j - 1] + 1
        yield tuple([pool[k] for k in indices])


def groupby(iterable, key=None):
    keys = []
    groups = []
    for item in iterable:
        k = item if key is None else key(item)
        if not keys or not keys[-1] == k:
            keys.append(k)
            groups.append([])
        groups[-1].append(item)
    for k, group in zip(keys, groups):
        yield k, iter(group)


def tee(iterable, n=2):
    items = list(iterable)
    return tuple([iter(items) for _ in range(n)])
