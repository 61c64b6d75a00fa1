"""What objects refuse: attributes read, set and deleted, of objects that exist and of those that the program makes."""

import collections
import functools
import io
import types
import weakref

import pytest

import cdynamo


class Plain:
    def method(self):
        pass

    prop = property(lambda self: 1)


class Slots:
    __slots__ = ("a", "b")


class SlotsOfItsBase(Slots):
    __slots__ = ()


class WithDict(Slots):
    pass


class Empty(tuple):
    __slots__ = ()


class Number(int):
    pass


def function():
    pass


@pytest.fixture(autouse=True)
def compile_everything():
    cdynamo.reset()
    cdynamo.config.keep_empty_graphs = True


MAKERS = {
    "object": object,
    "plain": Plain,
    "slots": Slots,
    "slots of its base": SlotsOfItsBase,
    "slots and dict": WithDict,
    "tuple's subclass": Empty,
    "int's subclass": Number,
    "weakref": lambda: weakref.ref(Plain),
    "int": lambda: 5,
    "float": lambda: 1.5,
    "complex": lambda: 1j,
    "str": lambda: "a",
    "bytes": lambda: b"a",
    "None": lambda: None,
    "exception": lambda: ValueError(3),
    "namespace": lambda: types.SimpleNamespace(q=1),
    "partial": lambda: functools.partial(len),
    "property": lambda: property(len),
    "deque": collections.deque,
    "slice": lambda: slice(1),
    "list": list,
    "dict": dict,
    "iterator": lambda: iter([]),
    "function": lambda: lambda: 0,
    "known function": lambda: types.FunctionType(function.__code__, {}),
    "method": lambda: Plain().method,
    "mapping proxy": lambda: types.MappingProxyType({}),
    "file": io.StringIO,
}
NAMES = ["y", "a", "__callback__", "real", "method", "prop", "func", "__doc__", "args", "q", "start", "__name__"]


def attempts(x, name):
    outcomes = []

    def attempt(act, *args):
        try:
            value = act(x, name, *args)
            outcomes.append(value if isinstance(value, (int, str)) else type(value))
        except (AttributeError, TypeError) as error:
            outcomes.append((type(error), str(error)))

    attempt(getattr)
    attempt(delattr)
    attempt(setattr, 1)
    attempt(getattr)
    attempt(delattr)
    attempt(delattr)
    attempt(getattr)
    return outcomes


@pytest.mark.parametrize("made", [False, True], ids=["given", "made"])
@pytest.mark.parametrize("kind", MAKERS)
def test_refused_attributes(kind, made):
    make = MAKERS[kind]
    fast = cdynamo.optimize((lambda x, name: attempts(make(), name)) if made else attempts)
    for name in NAMES:
        cdynamo.reset()  # the limit of recompilations
        assert fast(make(), name) == attempts(make(), name), name


def test_a_refusal_is_raised_where_it_is_caught():
    def run(make):
        reference = weakref.ref(make)
        try:
            reference.__callback__ = None
        except AttributeError as error:
            return str(error), len(str(error))

    assert cdynamo.optimize(run)(Plain) == run(Plain)


def test_a_default_factory_that_is_a_method_of_its_own_dict():
    def run():
        class Sub(collections.defaultdict):
            def __init__(self):
                self.default_factory = self.make

            def make(self):
                return []

        made = Sub()
        return repr(made).count("...")

    assert cdynamo.optimize(run)() == run()


class MakesItsOwn(collections.defaultdict):
    def __init__(self):
        super().__init__()
        self.default_factory = self.make

    def make(self):
        return len(self)


def read_made_inside():
    made = MakesItsOwn()
    return made["new"], made["other"], sorted(made.items())


def test_a_factory_that_is_a_method_of_its_dict():
    """The value of a bound method holds its object, whose value holds the factory."""
    made = MakesItsOwn()
    outside = lambda: (made["new"], dict(made))  # noqa: E731
    assert cdynamo.optimize(read_made_inside)() == read_made_inside()
    assert cdynamo.optimize(outside)() == (0, {"new": 0})
    assert outside() == (0, {"new": 0})
