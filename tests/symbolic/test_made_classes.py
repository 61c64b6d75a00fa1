"""Classes that captured code makes: one of its own for each call, as far as anyone can tell."""

from __future__ import annotations

import dataclasses
import enum
import gc
import typing

import pytest
from made_class_details import IN_ONE_GRAPH, WITH_BREAKS
from made_class_programs import PROGRAMS, Outer
from values_check import check

import cdynamo

kept = []


class Registered:
    classes = []

    def __init_subclass__(cls, **keywords):
        Registered.classes.append((cls.__name__, keywords))


@pytest.mark.parametrize("fn", [*PROGRAMS, *IN_ONE_GRAPH], ids=lambda fn: fn.__name__)
def test_in_one_graph(fn):
    check(fn, (3,), (4,), (5,), (2,))


# ---- what leaves, or is not captured


def returned(x):
    class A:
        value = x

    return A


def instance_returned(x):
    class A:
        def __init__(self):
            self.value = x

        def get(self):
            return self.value + x

    return [A()]


def method_returned(x):
    class A:
        def get(self):
            return self, x

    return A().get


def function_returned(x):
    class A:
        def get(self):
            return x

        def own(self):
            return __class__

    return A.get, A.own, A.get(1)


def property_returned(x):
    class A:
        get = property(lambda self: x)

    return A.get.fget(1), A.get


def member_returned(x):
    class E(enum.Enum):
        A = x if False else 1

    return E.A, E


def fields_returned(x):
    @dataclasses.dataclass
    class A:
        a: int = 3

    return dataclasses.fields(A)[0].name, dataclasses.fields(A), A().__init__


def stored_in_argument(items):
    class A:
        pass

    items.append(A)
    items.append(A())


def stored_in_global(x):
    class A:
        value = x

    kept.append(A)
    kept[:-1] = []
    return kept[-1].value


def closed_over(x):
    class A:
        value = x

    return lambda: A.value + x


def raised(x):
    class Error(ValueError):
        pass

    raise Error(x)


def raised_in_body(x):
    class A:
        value = [x].index(x)
        other = [x].index(-1)

    return A


def with_a_break_later(x):
    class A:
        def get(self):
            return x

    a = A()
    cdynamo.graph_break()
    return a.get()


def with_a_break_in_a_method(x):
    class A:
        def get(self):
            cdynamo.graph_break()
            return x + 1

    return A().get()


def with_a_break_in_the_body(x):
    class A:
        value = x
        cdynamo.graph_break()
        other = value + 1

    return A.other


def with_a_break_and_nothing_else(x):
    class A(Outer):
        pass

    del A
    cdynamo.graph_break()
    return x


def in_a_loop_with_a_break(x):
    found = []
    for k in range(3):

        class A:
            value = k * x

        cdynamo.graph_break()
        found.append(A.value)
    return found


def registered(x):
    class A(Registered, tag=x):
        pass

    return Registered.classes.pop()


def bad_bases(x):
    found = []
    for bases in ((3,), (bool,), (Outer, object, Outer)):
        try:

            class A(*bases):
                pass
        except TypeError as error:
            found.append(str(error))
    try:

        class B(Outer, unknown=x):
            pass
    except TypeError as error:
        found.append(str(error))
    return found


def subclasses(x):
    class Base:
        pass

    class A(Base):
        pass

    return [c.__name__ for c in Base.__subclasses__()]


def subclasses_after_a_break(x):
    class Base:
        pass

    class A(Base):
        pass

    cdynamo.graph_break()
    gc.collect()
    return [c.__name__ for c in Base.__subclasses__()]


def looked_into(x):
    class A:
        b = x
        a = 1

    return [n for n in vars(A) if not n.startswith("__")], [n for n in dir(A) if not n.startswith("__")]


def finalized(x):
    log = []

    class A:
        def __del__(self):
            log.append(x)

    a = A()
    del a
    return log


def enum_with_code(x):
    class E(enum.Enum):
        A = 1, 2
        B = 3, 4

        def __init__(self, first, second):
            self.total = first + second + x

    return E.A.total, E.B.total


def mutable_default(x):
    try:

        @dataclasses.dataclass
        class A:
            a: list = []  # noqa: RUF009

    except ValueError as error:
        return str(error)


def enum_of_auto(x):
    class F(enum.Flag):
        A = enum.auto()
        B = enum.auto()
        AB = A | B

    return F.AB.value, F.AB == F.A | F.B


def protocol(x):
    class HasGet(typing.Protocol):
        def get(self) -> int: ...

    class A(HasGet):
        def get(self):
            return x

    return A().get()


ANYWAY = [
    returned, instance_returned, method_returned, function_returned, property_returned, member_returned,
    fields_returned, stored_in_global, closed_over, raised, raised_in_body, with_a_break_later,
    with_a_break_in_a_method, with_a_break_in_the_body, with_a_break_and_nothing_else, in_a_loop_with_a_break, registered, bad_bases,
    subclasses, subclasses_after_a_break, looked_into, finalized, enum_with_code, mutable_default, protocol, enum_of_auto,
]  # fmt: skip


@pytest.mark.parametrize("fn", [*ANYWAY, *WITH_BREAKS], ids=lambda fn: fn.__name__)
def test_as_in_python(fn):
    check(fn, (3,), (4,), (5,), (2,), breaks=None)


def test_stored_in_an_argument():
    check(stored_in_argument, ([],), ([1],), breaks=None)


def test_each_call_gives_a_class_of_its_own():
    compiled = cdynamo.optimize(returned)
    classes = {compiled(x) for x in (1, 2, 1)}
    assert len(classes) == 3 and sorted(cls.value for cls in classes) == [1, 1, 2]


def test_no_base_knows_of_what_capture_makes():
    def program(x):
        class A(Outer):
            pass

        class B(A):
            pass

        return B(x).get(), A

    compiled = cdynamo.optimize(program)
    gc.disable()
    try:
        before = len(Outer.__subclasses__())
        classes = [compiled(x)[1] for x in (1, 2)]
        assert Outer.__subclasses__()[before:] == classes
    finally:
        gc.enable()


def test_nothing_keeps_what_capture_makes_alive():
    def program(x):
        class A(Outer):
            def own(self):
                return __class__, x

        return len(A(x).own())

    cdynamo.config.keep_empty_graphs = True
    compiled = cdynamo.optimize(program, fullgraph=True)
    assert compiled(1) == compiled(2) == 2
    gc.collect()
    assert not [o for o in gc.get_objects() if type(o) is type and o.__qualname__.endswith("program.<locals>.A")]


class Empty:
    __slots__ = ()

    def __init_subclass__(cls):
        pass


def of_empty(x):
    class A(Empty):
        value = x

    return A.value


def test_the_report_names_the_class():
    with pytest.raises(cdynamo.GraphBreakError, match="class definition A, whose base has an __init_subclass__"):
        cdynamo.optimize(of_empty, fullgraph=True)(1)
    with pytest.raises(cdynamo.GraphBreakError, match=r"class definition A, which leaves(.|\n)*class A:"):
        cdynamo.optimize(returned, fullgraph=True)(1)
