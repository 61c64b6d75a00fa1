"""What is compiled for classes, functions and objects that come and go does not keep them alive."""

import gc
import weakref

import numpy as np
import pytest

import cdynamo

X = np.arange(4.0)


@pytest.fixture(autouse=True)
def clean():
    cdynamo.reset()
    yield
    cdynamo.reset()


def plain_class():
    class Scale:
        factor = 2.0

        def __init__(self, offset=1.0):
            self.offset = offset

        def apply(self, x):
            return x * self.factor + self.offset

    return Scale


def class_with_super():
    class Scale(plain_class()):
        def __init__(self, offset=1.0):
            super().__init__(offset)

        def apply(self, x):
            return super().apply(x) + len(type(self).__mro__)

    return Scale


def class_with_closure():
    extra = np.ones(4)

    class Scale(plain_class()):
        def apply(self, x):
            return (x + extra) * self.factor if isinstance(self, Scale) else x

    return Scale


def class_with_descriptors():
    class Scale(plain_class()):
        @property
        def twice(self):
            return 2 * self.offset

        @classmethod
        def make(cls):
            return cls(3.0)

        @staticmethod
        def half(x):
            return x / 2

        def apply(self, x):
            return self.half(x) + self.twice + self.make().offset

    return Scale


CLASSES = [plain_class, class_with_super, class_with_closure, class_with_descriptors]


def apply(obj, x):
    return obj.apply(x) * 2


def makes_another(obj, x):
    other = type(obj)(2.0)
    return other, other.apply(x)


def gives_its_class(obj, x):
    return obj.__class__, obj.apply, x + 1


def breaks_in_the_middle(obj, x):
    y = obj.apply(x)
    cdynamo.graph_break()
    return obj.apply(y)


FUNCTIONS = [apply, makes_another, gives_its_class, breaks_in_the_middle]


def compiled():
    return cdynamo.counters()["frames_compiled"]


def last(result):
    return result[-1] if isinstance(result, tuple) else result


def alive(references):
    gc.collect()
    return sum(reference() is not None for reference in references)


@pytest.mark.parametrize("make", CLASSES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_classes_die(make, function):
    fast = cdynamo.optimize(function)
    before = compiled()
    references = []
    for _ in range(100):
        cls = make()
        obj = cls()
        expected, got = function(obj, X), fast(obj, X)
        assert repr(last(expected)) == repr(last(got))
        references += [weakref.ref(cls), weakref.ref(obj)]
        del cls, obj, expected, got
    assert compiled() > before
    assert alive(references) == 0


@pytest.mark.parametrize("make", CLASSES, ids=lambda make: make.__name__)
def test_classes_that_are_written_to_between_calls_die(make):
    fast = cdynamo.optimize(apply)
    references = []
    for _ in range(20):
        cls = make()
        obj = cls()
        for _ in range(4):
            cls.current = obj
            cls.current = None
            assert repr(apply(obj, X)) == repr(fast(obj, X))
        references += [weakref.ref(cls), weakref.ref(obj)]
        del cls, obj
    assert alive(references) == 0


def test_instances_die():
    """Of a global, a closure and an argument that is compared by identity."""

    class Key:
        pass

    table = {}

    def look_up(key, other, x):
        return x * 2 if key is other and key not in table else x

    fast = cdynamo.optimize(look_up)
    references = []
    for _ in range(100):
        key, other = Key(), Key()
        for a, b in ((key, key), (key, other)):
            np.testing.assert_array_equal(fast(a, b, X), look_up(a, b, X))
        references += [weakref.ref(key), weakref.ref(other)]
        del key, other, a, b
    assert alive(references) == 0


def test_functions_die():
    def apply_to(function, x):
        return function(x) + 1

    fast = cdynamo.optimize(apply_to)
    references = []
    for i in range(100):

        def scaled(x, i=i):
            return x * i

        np.testing.assert_array_equal(fast(scaled, X), apply_to(scaled, X))
        references.append(weakref.ref(scaled))
        del scaled
    assert alive(references) == 0


def test_what_is_compiled_for_dead_classes_is_dropped_and_counts():
    def scale(obj, x):
        return x * obj.offset

    fast = cdynamo.optimize(scale)
    before = compiled()
    for _ in range(20):
        obj = plain_class()()
        np.testing.assert_array_equal(fast(obj, X), scale(obj, X))
        del obj
        gc.collect()
    assert compiled() - before == cdynamo.config.recompile_limit


def test_a_class_at_the_address_of_a_dead_one_is_another():
    fast = cdynamo.optimize(apply)
    for i in range(30):
        cls = plain_class()
        cls.factor = float(i)
        obj = cls()
        np.testing.assert_array_equal(fast(obj, X), (X * i + 1) * 2)
        del cls, obj
        gc.collect()


def test_a_live_class_hits():
    fast = cdynamo.optimize(makes_another)
    before = compiled()
    cls = class_with_super()
    for _ in range(5):
        other, y = fast(cls(), X)
        assert type(other) is cls
        gc.collect()
    assert compiled() - before == 1


class Holder:
    def __init__(self):
        self.value = 1


@pytest.mark.parametrize("make", [lambda: lambda: 1, lambda: type("Made", (), {})], ids=["function", "class"])
def test_what_is_gone_was_no_name_in_a_namespace(make):
    """The guard says that it is no key of the instance's dict; the next call's is another one."""
    cdynamo.config.keep_empty_graphs = True

    def f(holder):
        made = make()
        cdynamo.graph_break()
        return vars(holder).pop(made, 2), vars(holder).get(made)

    fast = cdynamo.optimize(f)
    holders = [Holder() for _ in range(4)]
    assert [fast(holder) for holder in holders] == [(2, None)] * 4
