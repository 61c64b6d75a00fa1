"""Objects of C types beside a program's own: their operators, their identity, and how long they live."""

import contextlib
import datetime
import decimal
import functools
import gc
import numbers
import sys
import weakref
from collections import deque
from fractions import Fraction

import pytest

import cdynamo


@pytest.fixture(autouse=True)
def _keep_empty_graphs():
    cdynamo.config.keep_empty_graphs = True


def outcome_of(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


class Ratio:
    numerator, denominator = 3, 1

    def __rmul__(self, other):
        return "product"


numbers.Rational.register(Ratio)


class Index:
    def __index__(self):
        return 3


class Equal:
    def __eq__(self, other):
        return True

    __hash__ = None


OBJECTS = [
    decimal.Decimal(3),
    decimal.Decimal("NaN"),
    Fraction(3),
    Ratio(),
    Index(),
    Equal(),
    datetime.timedelta(3),
    datetime.date(2020, 1, 1),
    *(3, 3.0, 3 + 0j, True, None, ..., "3", b"3", range(3), slice(3), list[int], int | str),
]


def compared(x, y):
    return x == y, x != y, x is y, x in [y], [x] == [y]


def ordered(x, y):
    return x < y, y <= x


def multiplied(x, y):
    return x * y, y * x


@pytest.mark.parametrize("program", [compared, ordered, multiplied])
def test_an_operand_that_the_other_one_may_ask(program):
    for x in OBJECTS:
        for y in OBJECTS:
            cdynamo.reset()
            expected, got = outcome_of(program, x, y), outcome_of(cdynamo.optimize(program), x, y)
            assert repr(expected) == repr(got), (x, y)


def test_bytes_are_formatted_with_bytes_of_an_object():
    class Data:
        def __bytes__(self):
            return b"abc"

    assert cdynamo.optimize(lambda data: b"<%s>" % data)(Data()) == b"<abc>"


@pytest.mark.parametrize(
    "make",
    [
        lambda: slice(1, 2),
        lambda: range(7, 9),
        lambda: int("1234567"),
        lambda: float("2.5"),
        lambda: "".join(["some ", "text"]),
        lambda: [].append,
        lambda: decimal.Decimal(3),
    ],
)
def test_what_came_in_goes_out_as_the_same_object(make):
    def through(x, y):
        return x is y, x, [x]

    fast = cdynamo.optimize(through)
    for _ in range(3):  # equal ones, and not the one that it was compiled for
        value = make()
        same, first, second = fast(value, value)
        assert same and first is value and second[0] is value


def test_an_assignment_to_a_deque_leaves_its_iterators_alone():
    def assign(items, values):
        for i, value in enumerate(values):
            items[i] = value
        return items

    items = deque([1, 2, 3])
    iterator = iter(items)
    assert cdynamo.optimize(assign)(items, [4, 2, 6]) is items
    assert list(iterator) == [4, 2, 6]


def test_keys_of_a_comparison_are_functools_own():
    def keys(x):
        make = functools.cmp_to_key(lambda a, b: a - b)
        return make, make(x)

    make, key = cdynamo.optimize(keys)(3)
    expected_make, expected_key = keys(3)
    assert type(make) is type(expected_make) and type(key) is type(expected_key)
    assert make(2) < key < make(4) and key.obj == 3


def test_isinstance_of_a_deep_tuple_raises_what_python_raises():
    def nested(depth):
        classes = (str,)
        for _ in range(depth):
            classes = (classes,)
        return isinstance("", classes)

    assert cdynamo.optimize(nested)(30)
    limit = sys.getrecursionlimit()
    with pytest.raises(RecursionError):
        cdynamo.optimize(nested)(100 * limit)


def test_a_metaclass_sees_new_bases_in_mro():
    class Meta(type):
        def mro(cls):
            if seen is not None and cls.__name__ == "C":
                seen.append(cls.__bases__)
            return type.mro(cls)

    Meta.mro = cdynamo.optimize(Meta.mro)
    seen = None
    A, B = Meta("A", (), {}), Meta("B", (), {})
    C = Meta("C", (A,), {})
    seen = []
    C.__bases__ = (B,)
    C.__bases__ = (A,)
    assert seen == [(B,), (A,)]


def test_a_frame_that_measures_memory_runs_in_python():
    def size_of_dict():
        class Point:
            pass

        [Point() for _ in range(30)]
        point = Point()
        point.x, point.y = 1, 2
        return sys.getsizeof(point.__dict__), sys.getrefcount(point)

    assert cdynamo.optimize(size_of_dict)() == size_of_dict()


def test_the_dict_of_an_object_that_is_gone():
    class Point:
        pass

    def make(x):
        point = Point()
        point.x, point.y, point.z = x, 2, 3
        return point.__dict__

    fast = cdynamo.optimize(make)
    expected, got = make(1), fast(1)
    assert got == expected and list(got) == list(expected)
    for attributes in (expected, got):
        attributes.popitem()
    assert got == expected


def test_objects_die_in_a_function_that_a_with_is_around():
    class Thing:
        pass

    @contextlib.contextmanager
    def around():
        yield

    @around()
    def program():
        first, second = Thing(), Thing()
        refs = [weakref.ref(first), weakref.ref(second)]
        cdynamo.graph_break()
        del first
        gc.collect()
        alive = [ref() is not None for ref in refs]
        cdynamo.graph_break()
        del second
        return alive, [ref() is not None for ref in refs]

    assert cdynamo.optimize(program)() == ([False, True], [False, False])
