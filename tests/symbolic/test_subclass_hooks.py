"""Classes that captured code makes of bases with an __init_subclass__ of the program's."""

from __future__ import annotations

import abc
import gc
import typing

import pytest
from values_check import check

import cdynamo

SEEN = []


class Tagged:
    tag = "none"

    def __init_subclass__(cls, tag=None, **keywords):
        super().__init_subclass__(**keywords)
        cls.tag = tag or cls.__name__.lower()
        cls.bases_seen = tuple(base.__name__ for base in cls.__mro__)

    def name(self):
        return self.tag


class Deeper(Tagged):
    def name(self):
        return "deeper " + super().name()


class Counting(abc.ABC):
    def __init_subclass__(cls, /, step=1):
        cls.step = step * 2

    @abc.abstractmethod
    def count(self): ...


class Registering:
    classes = []

    def __init_subclass__(cls):
        Registering.classes.append(cls)


class Slotted:
    __slots__ = ("value",)

    def __init_subclass__(cls):
        cls.seen = True


T = typing.TypeVar("T")


class Generic(typing.Generic[T]):
    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        cls.made = True


def tagged(n):
    class One(Tagged, tag="q"):
        def name(self):
            return super().name() + str(n)

    class Two(Tagged):
        pass

    return One.tag, One().name(), Two.tag, Two().name(), One.bases_seen, One.__bases__[0] is Tagged, One.__mro__[1:]


def of_subclasses(n):
    class One(Deeper, tag=f"t{n}"):
        pass

    class Two(One):
        value = n

    return One().name(), Two().name(), Two.tag, Two.value, isinstance(Two(), Tagged), Two.bases_seen, Tagged.tag


def own_hook_first(n):
    class One(Tagged):
        def __init_subclass__(cls, number=0, **keywords):
            super().__init_subclass__(**keywords)
            cls.number = number + n

    class Two(One, number=2, tag="two"):
        pass

    return One.tag, Two.tag, Two.number, hasattr(One, "number")


def abstract(n):
    class One(Counting, step=n):
        def count(self):
            return self.step

    class Two(Counting):
        pass

    try:
        Two()
    except TypeError as error:
        return One().count(), Two.step, str(error)


def several_bases(n):
    class Other:
        other = n

    class One(Tagged, Other, tag="one"):
        pass

    class Two(Other, Tagged):
        pass

    return One.tag, One().other, Two.tag, Two().name(), [base.__name__ for base in Two.__mro__]


def errors(n):
    found = []
    try:

        class One(Tagged, tag="a", other=n):
            pass
    except TypeError:
        found.append("refused")
    try:

        class Two(Counting, other=1):
            def count(self):
                return 1
    except TypeError:
        found.append("refused too")
    return found


def with_slots(n):
    class One(Tagged):
        __slots__ = ("own",)

    one = One()
    one.own = n
    return one.own, one.name(), One.tag


def registered(n):
    class One(Registering):
        value = n

    SEEN.append(n)
    return One.value, len(Registering.classes)


def of_slotted(n):
    class One(Slotted):
        pass

    return One.seen, n


def slots_of_slotted(n):
    class One(Slotted):
        __slots__ = ("own",)

    one = One()
    one.own = one.value = n
    try:
        one.other = 1
    except AttributeError:
        return one.own, one.value, hasattr(one, "__dict__")


class Empty:
    __slots__ = ()

    def __init_subclass__(cls):
        cls.seen = True


def of_empty(n):
    class One(Empty):
        pass

    class Two(Empty):
        __slots__ = ("own",)

    return One.seen, Two.seen, hasattr(One(), "__dict__"), hasattr(Two(), "__dict__"), n


def of_generic(n):
    class One(Generic[int]):
        pass

    return One.made, One.__orig_bases__, n


@pytest.mark.parametrize("program", [tagged, of_subclasses, own_hook_first, abstract, several_bases, with_slots])
def test_in_one_graph(program):
    check(program, (1,), (2,), (3,))


@pytest.mark.parametrize("program", [errors, of_slotted, slots_of_slotted, of_empty, of_generic])
def test_with_breaks_or_without(program):
    check(program, (1,), (2,), (3,), breaks=None)


def test_what_registers_classes_is_left_to_python():
    fast = cdynamo.optimize(registered)
    Registering.classes.clear()
    assert [fast(n) for n in (1, 2, 3)] == [(1, 1), (2, 2), (3, 3)]
    assert [cls.value for cls in Registering.classes] == [1, 2, 3] and SEEN == [1, 2, 3]
    Registering.classes.clear()


def test_a_hook_that_is_changed_is_seen():
    class Base:
        def __init_subclass__(cls):
            cls.number = 1

    def program(n):
        class One(Base):
            pass

        return One.number + n

    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(program, fullgraph=True)
    assert fast(1) == 2 == fast(1)
    Base.__init_subclass__ = classmethod(lambda cls: setattr(cls, "number", 5))
    assert fast(1) == program(1) == 6


def test_bases_keep_nothing():
    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(tagged, fullgraph=True)
    gc.collect()
    before = len(Tagged.__subclasses__())
    for n in (1, 2, 3):
        fast(n)
    gc.collect()
    assert len(Tagged.__subclasses__()) == before
    hidden = [cls for cls in abc.ABC.__subclasses__() if cls.__name__ == "Inert"]
    assert not hidden
