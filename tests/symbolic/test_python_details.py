"""What CPython's own tests look at: programs that return what they saw, plain and compiled."""

from __future__ import annotations

import collections
import functools
import gc
import operator
import types
import warnings
import weakref

import pytest
from saying import shout
from values_check import check

import cdynamo


def outcome(program):
    try:
        return program()
    except Exception as error:
        return type(error).__name__, str(error)


def raised(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def a_made_class_takes_init_of_what_new_gives():
    class C:
        def __new__(cls, arg):
            return [1] if isinstance(arg, str) else object.__new__(D)

    class D(C):
        def __init__(self, arg):
            self.foo = arg

    return C("1"), type(C(1)) is D, C(1).foo, D("1"), D(2).foo


class Count:
    """An index, and nothing else."""

    def __index__(self):
        return 2


def sequences_are_repeated_by_what_is_an_index():
    items = [1]
    items *= Count()
    text = "a".join("bc")
    return (
        "ab" * Count(),
        Count() * (1, 2),
        text * Count(),
        items,
        raised(operator.mul, text, 2.5),
        raised(operator.mul, [1], "a"),
    )


def errors_of_comparisons_name_their_operands():
    empty = tuple(i for i in range(0))
    return (
        raised(operator.gt, empty, 1),
        raised(operator.lt, 1, empty),
        raised(operator.le, None, empty),
        empty == 1,
        1 != empty,
    )


def object_refuses_excess_arguments():
    class Neither:
        pass

    class New:
        def __new__(cls, foo, kw=0, *args, **kwargs):
            return object.__new__(cls, *args, **kwargs)

    class Init:
        def __init__(self, foo, kw=0, *args, **kwargs):
            object.__init__(self, *args, **kwargs)

    class Both(New, Init):
        pass

    results = [
        raised(Neither, 1),
        raised(Neither, kw=1),
        raised(Neither().__init__, 4),
        raised(object.__new__, Neither, 4),
    ]
    for case in New, Init, Both:
        case(1), case(1, kw=2)
        results += [raised(case, 1, 2, 3), raised(case, 1, 2, foo=3), raised(object.__new__, case, 5)]
    return results


def a_metaclass_setter_without_a_getter_gives_way():
    class Setter:
        def __set__(self, instance, value):
            instance.__dict__["a"] = value

    class Meta(type):
        pass

    class X(metaclass=Meta):
        pass

    X.a = 42
    Meta.a = Setter()
    return X.a


def methods_of_another_class_refuse_the_instance():
    class A(int):
        __eq__ = str.__eq__
        __add__ = str.__add__

    a = A(2)
    return raised(operator.eq, a, a), raised(operator.add, a, a)


def super_checks_its_object():
    class C:
        pass

    class D(C):
        def meth(self):
            return super()

    cell = (lambda: D).__closure__[0]
    return raised(super, D, 42), raised(super, D, C()), raised(D.meth, cell), raised(D.meth, C())


def bound_methods_of_c_are_compared():
    items, other, text = [1], [1], {}
    return (
        items.append == items.append,
        items.append != items.append,
        items.append == other.append,
        items.append == items.pop,
        items.__add__ == items.__add__,
        items.__add__ == items.__mul__,
        text.get == text.get,
        [items.append].index(items.append),
    )


def generators_have_the_name_that_their_function_had():
    def func():
        yield 1

    first = func()
    func.__name__, func.__qualname__ = "name", "a.name"
    second = func()
    return first.__name__, second.__name__, second.__qualname__, list(second)


def annotations_of_a_new_function_are_one_dict():
    def f():
        pass

    def g(a: int):
        pass

    wrapper = functools.update_wrapper(lambda: 0, f)
    return (
        f.__annotations__ is f.__annotations__,
        wrapper.__annotations__ is f.__annotations__,
        f.__annotations__,
        g.__annotations__,
    )


def a_sort_sees_that_its_list_changes():
    results = []
    for meddle in (lambda items: (items.append(3), items.pop()), lambda items: (items.append(3), items.clear()), len):
        items = [2, 1]

        def key(x, items=items, meddle=meddle):
            meddle(items)
            return x

        results += [raised(items.sort, key=key), items]
    seen = []
    items = [3, 1]
    items.sort(key=lambda x: seen.append(list(items)) or x)
    broken = [3, 1]
    return results, seen, items, raised(broken.sort, key=lambda x: x.nothing), broken


def counters_ask_their_own_methods():
    class Setting(collections.Counter):
        def __setitem__(self, key, value):
            seen.append(key)
            super().__setitem__(key, value)

    class Getting(collections.Counter):
        def get(self, key, default):
            seen.append((key, default))
            return super().get(key, default)

    seen = []
    ordered = collections.OrderedDict()
    collections._count_elements(ordered, "abca")
    return dict(Setting("aba")), dict(Getting("aba")), ordered, seen


def an_index_of_a_subclass_warns():
    class Bad:
        def __index__(self):
            return True

    class Worse:
        def __index__(self):
            return "1"

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        index = operator.index(Bad())
    return index, [str(w.category) for w in told], raised(operator.index, Worse())


def exceptions_are_initialized_again():
    error = ImportError("test", name="name", path="path")
    error.__init__()
    other = ValueError(1)
    other.__init__(2, 3)
    return error.args, error.msg, error.name, error.path, other.args


def ordered_dicts_are_changed_behind_their_back():
    results = []
    for change in (lambda od: dict.__delitem__(od, "spam"), lambda od: dict.pop(od, "spam"), dict.popitem):
        od = collections.OrderedDict(spam=1, ham=2)
        change(od)
        results.append(raised(repr, od))
    return results


def dicts_tell_that_they_changed_while_iterated():
    results = []
    for make in dict.fromkeys, collections.OrderedDict.fromkeys, lambda keys: set(keys):
        made = make("abc")
        it = iter(made)
        key = next(it)
        made.pop(key) if isinstance(made, dict) else made.discard(key)
        results.append(raised(next, it))
        made = make("abc")
        it = iter(made)
        made.update(dict.fromkeys("de"))
        results.append(raised(next, it))
    return [kind and kind[0] for kind in results]


def subclasses_of_dicts_make_their_own():
    class Ordered(collections.OrderedDict):
        pass

    class Defaults(collections.defaultdict):
        pass

    a, d = Ordered(x=1), Defaults(list, x=1)
    return [type(v).__name__ for v in (a.copy(), a | {"y": 2}, {"y": 2} | a, d.copy(), d | {"y": 2})], a | {"y": 2}


def locals_that_are_let_go_tell():
    class Told:
        def __init__(self, name="o"):
            self.name = name

        def __del__(self):
            seen.append(self.name)

    seen = []
    items = [Told("a"), Told("b")]
    pairs = {1: Told("c"), 2: Told("d")}
    nested = (Told("e"), [Told("f")])
    found = [list(seen)]
    items[0] = None
    found.append(list(seen))
    pairs[1] = 0
    found.append(list(seen))
    del pairs[2]
    found.append(list(seen))
    del nested
    found.append(sorted(seen))
    items.clear()
    found.append(sorted(seen))
    return found


def weak_references_see_what_is_deleted():
    class C:
        pass

    seen = []
    a, b, c = C(), C(), C()
    plain, called = weakref.ref(a), weakref.ref(b, seen.append)
    finalizer = weakref.finalize(c, seen.append, "c")
    alive = plain() is a
    del a
    gone = plain()
    del b
    found = [len(seen)]
    del c
    return alive, gone, called() is None, found, seen[1:], finalizer.alive, finalizer()


def weak_dictionaries_lose_their_keys():
    class C:
        def __init__(self, arg):
            self.arg = arg

    objects = list(map(C, range(4)))
    weak = weakref.WeakKeyDictionary({o: o.arg for o in objects})
    both = weak | {objects[0]: 9}
    same = {(o, o.arg) for o in objects} == set(weak.items())
    before = sorted(both.values())
    del objects[0]
    gc.collect()
    return same, before, sorted(both.values()), len(weak), sorted(weak.values())


def a_function_dies_after_what_it_was_given_to():
    def remove(key):
        del data[key]

    def enclosed():
        f = lambda: ()  # noqa: E731
        data[weakref.ref(f, remove)] = None
        raise KeyError(len(data))

    data = {}
    return raised(enclosed), len(data)


def subclasses_of_complex_and_bytes_compute():
    class Z(complex):
        def __eq__(self, other):
            return abs(self - other) <= 1e-6

    class Plain(complex):
        pass

    class B(bytes):
        pass

    z, p = Z(1.0000003), Plain(2)
    return (
        z == 1,
        1 == z,
        p == 2,
        p == Plain(2),
        p + 1,
        B(b"a") == B(b"a"),
        B(b"a") + b"b",
        collections.deque([1]) == collections.deque([1]),
    )


def generators_that_wait_are_closed():
    def waiting(name):
        try:
            yield name
        finally:
            seen.append(name)

    seen = []
    first, second = waiting("a"), waiting("b")
    shout(next(first), next(second), end="")
    first = 1
    found = [list(seen)]
    del second
    return found, seen, first


def what_holds_itself_is_shown():
    class Held(frozenset):
        pass

    class Holder:
        def __repr__(self):
            return repr(self.value)

    holder = Holder()
    held = Held([holder])
    holder.value = held
    return repr(held), [v.value for v in held][0] is held


def modules_with_an_attribute_access_of_their_own():
    class Module(types.ModuleType):
        def __getattribute__(self, name):
            log.append(name)
            return types.ModuleType.__getattribute__(self, name)

    log = []
    module = Module("a")
    module.foo = 12
    return module.foo, log


def iterators_over_text_are_its_own():
    a, b = iter("xyz"), iter(b"xy")
    next(a)
    return type(a).__name__, type(b).__name__, list(a), a.__reduce__()[1], b.__reduce__()[1]


def classes_nested_deep():
    classes = int
    for _ in range(400):
        classes = (classes,)
    return isinstance(1, classes)


PROGRAMS = [value for value in list(globals().values()) if isinstance(value, types.FunctionType) and value.__module__ == __name__ and value not in (outcome, raised)]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_details(program):
    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(program)
    for _ in range(3):
        assert outcome(fast) == outcome(program)


def cached_program(make):
    @make
    def fib(n):
        return n if n < 2 else fib(n=n - 1) + fib(n=n - 2)

    @make
    def square(x):
        return x * x

    first = [fib(n=n) for n in range(8)], fib.cache_info()
    values = square(3), square(3), square(True), square(1.0), square(1), square(x=3)
    return first, values, square.cache_info(), [type(v).__name__ for v in values]


def cached_pairs(make):
    @make
    def text(pair):
        return str(pair)

    return text((1,)), text((True,)), text((1.0,)), text((2, (True,))), text((2, (1,))), text.cache_info()


@pytest.mark.parametrize("program", [cached_program, cached_pairs])
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("maxsize", [None, 3, 0])
def test_cached_functions_count_their_calls(program, typed, maxsize):
    cdynamo.config.keep_empty_graphs = True
    make = functools.lru_cache(maxsize, typed)
    fast = cdynamo.optimize(program)
    for _ in range(3):
        assert fast(make) == program(make)


def test_cached_objects_are_those_of_each_cache():
    def program():
        @functools.lru_cache
        def made(n):
            return [n]

        return made(1) is made(1), made(1), made

    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(program)
    same, first, _ = fast()
    first.append(2)
    again, second, made = fast()
    assert same and again and second == [1] and made.cache_info().misses == 1


def test_functions_and_what_looks_like_one():
    """What is looked at of a function is guarded to be one: another callable with a __dict__ may come next."""

    def program(f):
        got = f.cache_info
        shout(end="")
        return got()

    cdynamo.config.keep_empty_graphs = True
    plain, cached = (lambda: 1), functools.lru_cache(lambda: 1)
    plain.cache_info = lambda: 5
    fast = cdynamo.optimize(program)
    for _ in range(2):
        assert fast(plain) == 5
        assert fast(cached) == cached.cache_info()


def test_what_a_class_holds_dies_with_it():
    def program(make):
        class A:
            od = make()

            @functools.lru_cache
            def method(self, x):
                return x

        A.od[A] = None
        return weakref.ref(A), weakref.ref(A.method), A().method(3)

    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(program)
    for make in collections.OrderedDict, collections.UserDict:
        for _ in range(3):
            cls, method, *_ = fast(make)
            gc.collect()
            assert cls() is None and method() is None


def test_a_key_with_a_comparison_of_its_own():
    """Nothing of a capture or a guard runs it where the program does not."""

    class Evil:
        def __hash__(self):
            return hash("attr")

        def __eq__(self, other):
            asked.append(other)
            return False

    def program(c):
        return c.attr

    class C:
        attr = 1

    cdynamo.config.keep_empty_graphs = True
    fast, asked = cdynamo.optimize(program), []
    c = C()
    c.__dict__[Evil()] = 0
    assert program(c) == 1
    count = len(asked)
    assert fast(c) == 1 and len(asked) == 2 * count


def test_a_compiled_comparison_changes_the_list_that_is_sorted():
    def compare(x, y):
        items.append(3)
        items.pop()
        return x - y

    cdynamo.config.keep_empty_graphs = True
    fast, items = cdynamo.optimize(compare), [2, 1]
    with pytest.raises(ValueError, match="list modified during sort"):
        items.sort(key=functools.cmp_to_key(fast))


class Formatted:
    """`f"{x}"` asks __format__, with an empty text where the program gives none."""

    def __format__(self, spec):
        return f"<{spec}>"

    def __str__(self):
        return "text"


class FormattedWrongly:
    def __format__(self, spec):
        return 3


def test_format_of_a_class():
    def program(x):
        said = [f"{x} {x!s} {x:>3} {x!r:.2}", format(x), format(x, "a"), f"{x:{4}}"]
        try:
            said.append(f"{FormattedWrongly()}")
        except TypeError as error:
            said.append(str(error))
        return said

    class Repr(Formatted):
        def __repr__(self):
            return "shown"

    check(program, (Repr(),))


def test_errors_of_functions_of_one_argument():
    def program():
        said = []
        for wrong in (
            lambda: len(), lambda: len([], []), lambda: abs(), lambda: callable(1, 2), lambda: repr(), lambda: all(iterable=[]),
            lambda: operator.truth(), lambda: hash(1, 2), lambda: types.SimpleNamespace < collections.OrderedDict(),
        ):  # fmt: skip
            try:
                wrong()
            except TypeError as error:
                said.append(str(error))
        return said

    check(program)


def test_the_closure_of_a_function_that_has_none():
    def program(f, x):
        return f.__closure__, f.__name__, f(x)

    check(program, (len_of_nothing, 3))


def len_of_nothing(x):
    return x + 1


class AddsOnTheRight:
    """Iterable, with a + of its own for what stands on its left; for tuples it has none."""

    def __radd__(self, left):
        return NotImplemented if isinstance(left, tuple) or left == [0] else ("added", list(left))

    def __iter__(self):
        return iter([9])


def test_a_list_leaves_plus_to_what_stands_on_the_right():
    def program(right):
        items, extended, queue, text = [1], [0], collections.deque([2]), [3]
        items += right
        extended += right  # its + gives up
        queue += right
        text += "ab"
        text += (4,)
        return items, extended, queue, text, outcome(lambda: (1,) + right)

    check(program, (AddsOnTheRight(),))
