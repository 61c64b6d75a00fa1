"""A function or class that changes after it was compiled with is seen, however it was found."""

import gc

import numpy as np
import pytest

import cdynamo

X = np.arange(4.0)


def fresh():
    class Base:
        def apply(self, x, k=2.0, *, offset=0.5):
            return x * k + offset

        @staticmethod
        def half(x):
            return x / 2

        @classmethod
        def make(cls, x):
            return x + 3

        @property
        def size(self):
            return 4.0

    class Derived(Base):
        def apply(self, x):
            return super().apply(x)

    return Base, Derived


def other(*args):
    return args[-1] - 7.0


def replace_code(function):
    function.__code__ = other.__code__


def replace_defaults(function):
    function.__defaults__ = (5.0,)


def replace_keyword_defaults(function):
    function.__kwdefaults__ = {"offset": -1.0}


CALLS = {
    "method": (lambda Base, Derived: lambda x, o=Base(): o.apply(x), lambda Base: Base.apply),
    "super": (lambda Base, Derived: lambda x, o=Derived(): o.apply(x), lambda Base: Base.apply),
    "staticmethod": (lambda Base, Derived: lambda x, o=Base(): o.half(x), lambda Base: Base.half),
    "classmethod": (lambda Base, Derived: lambda x, o=Base(): o.make(x), lambda Base: Base.make.__func__),
    "property": (lambda Base, Derived: lambda x, o=Base(): x * o.size, lambda Base: Base.size.fget),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_method_whose_code_is_replaced(name):
    make_call, find = CALLS[name]
    Base, Derived = fresh()
    plain = make_call(Base, Derived)
    fast = cdynamo.optimize(plain)
    np.testing.assert_array_equal(fast(X), plain(X))
    if name == "property":
        find(Base).__code__ = (lambda self: 9.0).__code__
    else:
        replace_code(find(Base))
    np.testing.assert_array_equal(fast(X), plain(X))


@pytest.mark.parametrize("change", [replace_defaults, replace_keyword_defaults])
@pytest.mark.parametrize("name", ["method", "super"])
def test_a_method_whose_defaults_are_replaced(name, change):
    make_call, find = CALLS[name]
    Base, Derived = fresh()
    plain = make_call(Base, Derived)
    fast = cdynamo.optimize(plain)
    np.testing.assert_array_equal(fast(X), plain(X))
    change(find(Base))
    np.testing.assert_array_equal(fast(X), plain(X))


def keyword_only(x, *, k=2.0, j=1.0):
    return x * k + j


def keyword_calls():
    def inner(x, *, k=2.0, j=1.0):
        return x * k + j

    class Holder:
        def method(self, x, *, k=2.0, j=1.0):
            return x * k + j

        static = staticmethod(inner)

    listed = [inner]
    return {
        "itself": (inner, inner),
        "closure": (lambda x: inner(x), inner),
        "in a list": (lambda x: listed[0](x), inner),
        "global": (lambda x: keyword_only(x), keyword_only),
        "method": (lambda x, o=Holder(): o.method(x), Holder.method),
        "staticmethod": (lambda x: Holder.static(x), Holder.static),
    }


IN_PLACE = {
    "set": lambda defaults: defaults.update(k=5.0),
    "array": lambda defaults: defaults.update(k=X + 1),
    "deleted": lambda defaults: defaults.pop("k", None),
    "cleared": lambda defaults: defaults.clear(),
    "back": lambda defaults: defaults.update(j=1.0, k=2.0),
}


@pytest.mark.parametrize("changes", [("set", "back", "deleted", "back"), ("array", "set"), ("cleared", "back", "set")])
@pytest.mark.parametrize("name", keyword_calls())
def test_keyword_defaults_that_change_in_place(name, changes):
    plain, function = keyword_calls()[name]
    fast = cdynamo.optimize(plain)
    before = dict(function.__kwdefaults__)

    def outcome(run):
        try:
            return run(X).tolist()
        except TypeError as error:
            return str(error)

    try:
        assert outcome(fast) == outcome(plain)
        for change in changes:
            IN_PLACE[change](function.__kwdefaults__)
            assert outcome(fast) == outcome(plain), change
    finally:
        function.__kwdefaults__.update(before)


@pytest.mark.parametrize("found", ["made", "global", "method"])
def test_keyword_defaults_that_the_function_changes(found):
    class Holder:
        def method(self, x, *, k=2.0):
            return x * k

    def change(x):
        def made(x, *, k=2.0):
            return x * k

        function = {"made": made, "global": keyword_only, "method": Holder().method}[found]
        defaults = function.__kwdefaults__
        first = function(x)
        defaults["k"] = defaults["k"] + 1
        return first, function(x)

    def run(call):
        try:
            return [[value.tolist() for value in call(X)] for _ in range(3)]
        finally:
            keyword_only.__kwdefaults__["k"] = Holder.method.__kwdefaults__["k"] = 2.0

    assert run(cdynamo.optimize(change)) == run(change)


def with_attributes():
    class Base:
        def method(self, x):
            """two words"""
            return x

        method.scale = 2.0

        def free(x):
            return x

        free.scale = 2.0
        free = staticmethod(free)

        def attribute(self, x):
            return x * self.method.scale

        def of_static(self, x):
            return x * Base.free.scale

        def with_default(self, x):
            return x * getattr(self.method, "other", 1.0)

        def asked(self, x):
            return x * (10.0 if hasattr(Base.method, "other") else 3.0)

        def in_dict(self, x):
            return x * Base.method.__dict__.get("other", 1.0)

        def names(self, x):
            return x + len(Base.method.__dict__)

        def doc(self, x):
            return x + len(Base.method.__doc__)

        def name(self, x):
            return x + len(Base.method.__name__)

    return Base


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("name", ["attribute", "of_static", "with_default", "asked", "in_dict", "names", "doc", "name"])
def test_attributes_of_a_method_that_change(name, bound):
    Base = with_attributes()
    plain = getattr(Base(), name)
    fast = cdynamo.optimize(plain if bound else lambda x, o=Base(): getattr(o, name)(x))
    np.testing.assert_array_equal(fast(X), plain(X))
    for function in (Base.method, Base.free):
        function.scale = function.other = 5.0
        function.__doc__ = function.__name__ = "another"
    np.testing.assert_array_equal(fast(X), plain(X))
    for function in (Base.method, Base.free):
        function.scale = 6.0
        del function.other
    np.testing.assert_array_equal(fast(X), plain(X))


def test_an_unchanged_method_is_not_compiled_again():
    Base, Derived = fresh()
    fast = cdynamo.optimize(lambda o, x: o.apply(x))
    before = cdynamo.counters()["frames_compiled"]
    for _ in range(5):
        fast(Derived(), X)
    assert cdynamo.counters()["frames_compiled"] - before == 1


def test_a_function_that_is_called_in_another_way():
    """PyFunction_SetVectorcall, as profilers of C use it."""
    set_vectorcall = getattr(pytest.importorskip("_testcapi"), "function_setvectorcall", None)
    if not set_vectorcall:
        pytest.skip("3.12 and later have it")

    def scale(x):
        return x * 2

    fast = cdynamo.optimize(lambda x: scale(x))
    np.testing.assert_array_equal(fast(X), X * 2)
    set_vectorcall(scale)
    assert fast(X) == "overridden"
    fresh = cdynamo.optimize(lambda x: scale(x))
    assert fresh(X) == "overridden"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_class_whose_namespace_has_keys_of_its_own():
    """Their comparison is the program's, and may change the class: it runs when Python looks the name up, once."""

    def run(compile):
        compared = []

        class Key:
            def __hash__(self):
                return hash("factor")

            def __eq__(self, other):
                compared.append(other)
                made.__bases__ = (Second,)
                return False

        class First:
            factor = offset = 2.0

        class Second:
            factor = offset = 3.0

        made = type("made", (First,), {Key(): 5})

        def scale(x):
            y = x + 1
            return y * made.factor, y * made.offset

        return [result.tolist() for result in compile(scale)(X)], compared

    assert run(cdynamo.optimize) == run(lambda function: function)


REPLACED_WITHIN = """
def function(x):
    x = x + 1
    change()
    return x * 2

def change():
    function.__code__ = other.__code__
    gc.collect()
"""


def test_code_that_is_replaced_while_a_call_of_it_runs():
    space = {"other": other, "gc": gc}
    exec(REPLACED_WITHIN, space)
    space["change"] = cdynamo.disable(space["change"])
    compiled = cdynamo.optimize(space["function"])
    np.testing.assert_array_equal(compiled(X), (X + 1) * 2)
    np.testing.assert_array_equal(compiled(X), other(X))
