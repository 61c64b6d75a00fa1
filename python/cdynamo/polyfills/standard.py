"""Functions of the standard library that C implements, as its Python does: heapq, bisect, functools, operator."""

import csv
import functools
import io
import pprint as pretty
import struct
from bisect import bisect_left, bisect_right
from types import MethodType, SimpleNamespace


def insort_right(a, x, lo=0, hi=None, *, key=None):
    if key is None:
        lo = bisect_right(a, x, lo, hi)
    else:
        lo = bisect_right(a, key(x), lo, hi, key=key)
    a.insert(lo, x)


def insort_left(a, x, lo=0, hi=None, *, key=None):
    if key is None:
        lo = bisect_left(a, x, lo, hi)
    else:
        lo = bisect_left(a, key(x), lo, hi, key=key)
    a.insert(lo, x)


def less(a, b):
    return a < b


def greater(a, b):
    return b < a


def heappush(heap, item):
    heap.append(item)
    sift_down(heap, 0, len(heap) - 1, less)


def heappop(heap):
    return pop_first(heap, less)


def _heappop_max(heap):
    return pop_first(heap, greater)


def heapreplace(heap, item):
    return replace_first(heap, item, less)


def _heapreplace_max(heap, item):
    return replace_first(heap, item, greater)


def heappushpop(heap, item):
    return replace_first(heap, item, less) if heap and heap[0] < item else item


def heapify(x):
    order(x, less)


def _heapify_max(x):
    order(x, greater)


# `before`: which of two items is nearer to the first place.


def pop_first(heap, before):
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    return replace_first(heap, last, before) if heap else last


def replace_first(heap, item, before):
    if not heap:
        raise IndexError("index out of range")
    first = heap[0]
    heap[0] = item
    sift_up(heap, 0, before)
    return first


def order(heap, before):
    for i in reversed(range(len(heap) // 2)):
        sift_up(heap, i, before)


def sift_down(heap, start, place, before):
    item = heap[place]
    while place > start:
        parent = (place - 1) >> 1
        if not before(item, heap[parent]):
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = item


def sift_up(heap, place, before):
    end = len(heap)
    start = place
    item = heap[place]
    child = 2 * place + 1
    while child < end:
        right = child + 1
        if right < end and not before(heap[child], heap[right]):
            child = right
        heap[place] = heap[child]
        place = child
        child = 2 * place + 1
    heap[place] = item
    sift_down(heap, start, place, before)


def _wrapped_key(compare, obj):
    return functools.cmp_to_key(compare)(obj)


def lru_cache_wrapper(function, maxsize, typed, info_class):
    return Cache(function, maxsize, typed, info_class)


class Cache:
    """What functools.lru_cache makes of a function within captured code, which it does not leave."""

    made_by = None

    def __init__(self, function, maxsize, typed, info_class):
        self._function, self._maxsize, self._typed, self._info_class = function, maxsize, typed, info_class
        if maxsize is not None and maxsize < 0:
            self._maxsize = 0
        self.cache_clear()

    def __call__(self, *args, **kwargs):
        key = args, tuple(kwargs.items())
        if self._typed:
            key += (tuple([type(value) for value in args]), tuple([type(value) for value in kwargs.values()]))
        elif not kwargs and len(args) == 1 and type(args[0]) in (int, str):
            key = args[0]  # so that 1 is another than True and 1.0, which are one
        if self._maxsize != 0 and key in self._kept:
            self._hits += 1
            result = self._kept.pop(key)  # it comes to be the last one that was used
            self._kept[key] = result
            return result
        self._misses += 1
        result = self._function(*args, **kwargs)
        # The function may have called itself.
        if self._maxsize != 0 and (self._maxsize is None or key not in self._kept):
            if len(self._kept) == self._maxsize:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = result
        return result

    def __get__(self, instance, owner=None):
        return self if instance is None else MethodType(self, instance)

    def cache_info(self):
        return self._info_class(self._hits, self._misses, self._maxsize, len(self._kept))

    def cache_clear(self):
        self._kept, self._hits, self._misses = {}, 0, 0


class Keys:
    """What functools.cmp_to_key returns."""

    made_by = functools.cmp_to_key, "compare"

    def __init__(self, compare):
        self.compare = compare

    def __call__(self, obj):
        return Key(self.compare, obj)


class Key:
    made_by = _wrapped_key, "compare", "obj"
    __slots__ = ["compare", "obj"]
    __hash__ = None

    def __init__(self, compare, obj):
        self.compare = compare
        self.obj = obj

    def __lt__(self, other):
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other):
        return self.compare(self.obj, other.obj) > 0

    def __eq__(self, other):
        return self.compare(self.obj, other.obj) == 0

    def __le__(self, other):
        return self.compare(self.obj, other.obj) <= 0

    def __ge__(self, other):
        return self.compare(self.obj, other.obj) >= 0


def cmp_to_key(mycmp):
    return Keys(mycmp)


def count_of(a, b):
    count = 0
    for item in a:
        if item is b or item == b:
            count += 1
    return count


def index_of(a, b):
    for i, item in enumerate(a):
        if item is b or item == b:
            return i
    raise ValueError("sequence.index(x): x not in sequence")


def call(obj, /, *args, **kwargs):
    return obj(*args, **kwargs)


def dispatch(registry, cls):
    """functools.singledispatch: what is registered for a class, or for the best of its bases."""
    if cls in registry:
        return registry[cls]
    for base in registry:
        issubclass(cls, base)  # it may be registered with an abstract one later
    return registry[_dispatched(cls, *registry)]


def _dispatched(cls, *classes):
    return functools._find_impl(cls, {known: known for known in classes})


_dispatched._dynamo_marked_constant = True  # called while capturing: it computes from classes alone


def add_note(self, note):
    if not isinstance(note, str):
        raise TypeError(f"note must be a str, not '{type(note).__name__}'")
    if not hasattr(self, "__notes__"):
        self.__notes__ = []
    if not isinstance(self.__notes__, list):
        raise TypeError("Cannot add note: __notes__ is not a list")
    self.__notes__.append(note)


def format_exception_only(value):
    kind = type(value)
    name = (
        kind.__qualname__ if kind.__module__ in ("__main__", "builtins") else f"{kind.__module__}.{kind.__qualname__}"
    )
    text = str(value)
    lines = [f"{name}: {text}\n" if text else f"{name}\n"]
    for note in getattr(value, "__notes__", ()):
        lines += [line + "\n" for line in note.split("\n")]
    return lines


def pprint(object, stream=None, *args, **options):
    print(pretty.pformat(object, *args, **options), file=stream)


def pattern_sub(pattern, repl, string, count=0):
    return pattern_subn(pattern, repl, string, count)[0]


def pattern_subn(pattern, repl, string, count=0):
    """re.Pattern.subn with a function for `repl`."""
    parts, end, made = [], 0, 0
    for match in pattern.finditer(string):
        if 0 < count <= made:
            break
        start = match.start()
        if end < start:
            parts.append(string[end:start])
        part = repl(match)
        if part is not None:
            parts.append(part)
        end = match.end()
        made += 1
    if end < len(string):
        parts.append(string[end:])
    return string[:0].join(parts), made


def keyed_bisect_left(a, x, lo=0, hi=None, *, key):
    return first_place(a, lo, hi, lambda item: not key(item) < x)


def keyed_bisect_right(a, x, lo=0, hi=None, *, key):
    return first_place(a, lo, hi, lambda item: x < key(item))


def first_place(a, lo, hi, is_beyond):
    """Of an item that is beyond what is looked for."""
    if lo < 0:
        raise ValueError("lo must be non-negative")
    hi = len(a) if hi is None or hi == -1 else hi
    while lo < hi:
        middle = (lo + hi) // 2
        if is_beyond(a[middle]):
            hi = middle
        else:
            lo = middle + 1
    return lo


def length_hint(obj, default=0):
    if not isinstance(default, int):
        raise TypeError(f"'{type(default).__name__}' object cannot be interpreted as an integer")
    if hasattr(type(obj), "__len__"):
        try:
            return len(obj)
        except TypeError:
            pass
    if not hasattr(type(obj), "__length_hint__"):
        return default
    try:
        hint = type(obj).__length_hint__(obj)
    except TypeError:
        return default
    if hint is NotImplemented:
        return default
    if not isinstance(hint, int):
        raise TypeError(f"__length_hint__ must be an integer, not {type(hint).__name__}")
    if hint < 0:
        raise ValueError("__length_hint__() should return >= 0")
    return hint


def formatted(parts, args, names):
    text = ""
    for literal, field, conversion, specification in parts:
        text += literal
        if field is None:
            continue
        first, path = field
        if isinstance(first, int) and first >= len(args):
            raise IndexError(f"Replacement index {first} out of range for positional args tuple")
        value = args[first] if isinstance(first, int) else names[first]
        for is_attribute, name in path:
            value = getattr(value, name) if is_attribute else value[name]
        if conversion == "s":
            value = str(value)
        elif conversion == "r":
            value = repr(value)
        elif conversion == "a":
            value = repr(value).encode("ascii", "backslashreplace").decode()
        how = formatted(specification, args, names)
        text += format(value, how) if how else f"{value}"
    return text


def container_repr(items):
    if isinstance(items, dict):
        return "{" + ", ".join([f"{key!r}: {value!r}" for key, value in items.items()]) + "}"
    text = ", ".join([repr(item) for item in items])
    if isinstance(items, list):
        return "[" + text + "]"
    return "(" + text + (",)" if len(items) == 1 else ")")


def namespace_repr(self):
    name = "namespace" if type(self) is SimpleNamespace else type(self).__name__
    return f"{name}({', '.join([f'{key}={value!r}' for key, value in vars(self).items()])})"


# ---- csv: lines are read and written where the program does so, and what a row is of them is asked of csv itself


def csv_reader(csvfile, /, dialect="excel", **options):
    _csv_fields((), dialect, tuple(options.items()))  # raises where the options are none
    return CsvReader(iter(csvfile), dialect, tuple(options.items()))


class CsvReader:
    made_by = None

    def __init__(self, lines, dialect, options):
        self._lines, self._dialect, self._options = lines, dialect, options
        self.line_num = 0

    def __iter__(self):
        return self

    def __next__(self):
        lines = [next(self._lines)]
        self.line_num += 1
        while True:
            fields, wants_more = _csv_fields(tuple(lines), self._dialect, self._options)
            if not wants_more:
                return list(fields)
            line = next(self._lines, None)  # a field in quotes goes on
            if line is None:
                return list(fields)
            lines.append(line)
            self.line_num += 1


def _csv_fields(lines, dialect, options):
    """The fields of a row that begins with these lines, and whether it asked for another one."""
    asked = []

    def given():
        yield from lines
        asked.append(True)

    fields = next(csv.reader(given(), dialect, **dict(options)), ())
    return tuple(fields), bool(asked)


_csv_fields._dynamo_marked_constant = True


def csv_writer(csvfile, /, dialect="excel", **options):
    _csv_line((), dialect, tuple(options.items()))
    return CsvWriter(csvfile.write, dialect, tuple(options.items()))


class CsvWriter:
    made_by = None

    def __init__(self, write, dialect, options):
        self._write, self._dialect, self._options = write, dialect, options

    def writerow(self, row, /):
        fields = [item if type(item) in (str, int, float, bool, type(None)) else str(item) for item in row]
        return self._write(_csv_line(tuple(fields), self._dialect, self._options))

    def writerows(self, rows, /):
        for row in rows:
            self.writerow(row)


def _csv_line(fields, dialect, options):
    stream = io.StringIO(newline="")
    csv.writer(stream, dialect, **dict(options)).writerow(fields)
    return stream.getvalue()


_csv_line._dynamo_marked_constant = True


def pack_into(format, buffer, offset, *values):
    buffer[:] = _packed_into(format, bytes(buffer), offset, values)


def _packed_into(format, contents, offset, values):
    buffer = bytearray(contents)
    struct.pack_into(format, buffer, offset, *values)
    return bytes(buffer)


_packed_into._dynamo_marked_constant = True
