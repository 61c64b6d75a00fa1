"""Warm calls check a list that the last walk of the guards left behind: whatever may change has to be noticed there too.

Each test calls often enough for the list to be in use, changes one thing and compares with plain Python.
"""

import gc
import weakref

import numpy as np
import pytest

import cdynamo

X = np.arange(4.0)


class Scale:
    kind = 2.0

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor * self.kind


class Shift:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x + self.by


class Model:
    def __init__(self):
        self.scale = Scale(3.0)
        self.shift = Shift(1.0)
        self.table = {"a": Scale(0.5), "weights": np.ones(4)}
        self.sizes = (2, np.full(4, 2.0))
        self.parts = [Shift(5.0), Scale(7.0)]
        self.calls = 0
        self.function = lambda x, by=1.0: x * by

    def __call__(self, x):
        x = self.shift(self.scale(x))
        x = self.table["a"](x) + self.table["weights"]
        if "extra" in self.table:
            x = x - self.table["extra"]
        if hasattr(self, "limit"):
            x = np.minimum(x, self.limit)
        x = x * self.sizes[0] + self.sizes[1]
        for part in self.parts:
            x = part(x)
        return self.function(x)


@pytest.fixture(autouse=True)
def no_limit():
    cdynamo.config.recompile_limit = 1000


def warm(compiled, *args):
    for _ in range(4):
        compiled(*args)


def replace_dict(model):
    model.__dict__ = dict(model.__dict__, shift=Shift(8.0))


def replace_dict_that_lives_on(model):
    KEPT.append(model.__dict__)
    replace_dict(model)


KEPT = []


def inner_dict(model):
    model.scale.__dict__ = {"factor": 11.0}


def same_dict_other_class(model):
    model.scale.__class__ = type("Other", (Scale,), {"kind": 9.0})


def delete_and_set(model):
    del model.scale.factor
    model.scale.factor = 1.5


def mutate_weights(model):
    model.table["weights"][:] = 4.0


CHANGES = {
    "attribute": lambda m: setattr(m.scale, "factor", 4.0),
    "attribute of another type": lambda m: setattr(m.scale, "factor", 4),
    "object": lambda m: setattr(m, "shift", Shift(2.0)),
    "object of another class": lambda m: setattr(m, "shift", Scale(2.0)),
    "item": lambda m: m.table.update(a=Scale(0.25)),
    "new key": lambda m: m.table.update(extra=1.0),
    "new attribute": lambda m: setattr(m, "limit", 3.0),
    "array": lambda m: m.table.update(weights=np.zeros(4)),
    "array of another dtype": lambda m: m.table.update(weights=np.zeros(4, np.float32)),
    "contents of an array": mutate_weights,
    "tuple": lambda m: setattr(m, "sizes", (3, np.full(4, 1.0))),
    "array in a tuple": lambda m: setattr(m, "sizes", (2, np.full(4, 6.0))),
    "list item": lambda m: m.parts.__setitem__(0, Shift(6.0)),
    "list": lambda m: m.parts.append(Scale(0.1)),
    "in a list": lambda m: setattr(m.parts[1], "factor", 0.3),
    "__dict__": replace_dict,
    "__dict__ that lives on": replace_dict_that_lives_on,
    "__dict__ below": inner_dict,
    "function": lambda m: setattr(m, "function", lambda x, by=2.0: x - by),
    "code of a function": lambda m: setattr(m.function, "__code__", (lambda x, by: x + by).__code__),
    "defaults of a function": lambda m: setattr(m.function, "__defaults__", (2.5,)),
    "__class__": same_dict_other_class,
    "deleted and set": delete_and_set,
    "shadowed class attribute": lambda m: setattr(m.scale, "kind", 5.0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed(name):
    model, plain = Model(), Model()
    compiled = cdynamo.optimize(Model.__call__)
    warm(compiled, model, X)
    np.testing.assert_allclose(compiled(model, X), plain(X))
    CHANGES[name](model)
    CHANGES[name](plain)
    for _ in range(3):
        np.testing.assert_allclose(compiled(model, X), plain(X))


@pytest.mark.parametrize("first", CHANGES)
def test_changes_one_after_another(first):
    model, plain = Model(), Model()
    compiled = cdynamo.optimize(Model.__call__)
    warm(compiled, model, X)
    for name in (first, *CHANGES):
        for m in (model, plain):
            try:
                CHANGES[name](m)
            except AttributeError:  # what is there by now is of another class
                pass
        for _ in range(2):
            np.testing.assert_allclose(compiled(model, X), plain(X), err_msg=name)


def test_a_class_that_changes():
    class Local(Scale):
        pass

    model = Local(2.0)
    compiled = cdynamo.optimize(Scale.__call__)
    warm(compiled, model, X)
    Local.kind = 4.0
    np.testing.assert_allclose(compiled(model, X), X * 8)
    warm(compiled, model, X)
    del Local.kind
    np.testing.assert_allclose(compiled(model, X), X * 4)


@pytest.mark.parametrize("base_is_written", [False, True])
def test_a_class_that_is_written_to_around_every_call(base_is_written, counts):
    # As DistributedDataParallel does. From 3.13 on a class has a new version a thousand times, then none.
    class Local(Scale):
        current = None

        def factor_of(self):
            return 1.0

        def __call__(self, x):
            return x * self.factor_of() * self.kind

    model, compiled = Local(2.0), cdynamo.optimize(Local.__call__)
    written = Scale if base_is_written else Local
    if base_is_written:
        Scale.current = None
        del Local.current
    try:
        for i in range(1200):
            written.current = model
            written.current = None
            np.testing.assert_allclose(compiled(model, X), X * 2)
            if i == 20:
                compiled_before = counts.frames_compiled
        assert counts.frames_compiled == compiled_before <= 3
        Local.factor_of = lambda self: 3.0
        np.testing.assert_allclose(compiled(model, X), X * 6)
        warm(compiled, model, X)
        for i in range(30):
            Local.factor_of = lambda self, by=float(i): by
            np.testing.assert_allclose(compiled(model, X), X * 2 * i)
        Local.factor_of = Scale.factor_of = lambda self: 5.0
        np.testing.assert_allclose(compiled(model, X), X * 10)
        del Local.factor_of
        Scale.factor_of = lambda self: 7.0
        np.testing.assert_allclose(compiled(model, X), X * 14)
        Local.kind = 4.0
        np.testing.assert_allclose(compiled(model, X), X * 28)
    finally:
        for name in {"current", "factor_of"} & set(vars(Scale)):
            delattr(Scale, name)


def test_a_class_whose_attribute_is_another_each_time():
    class Local(Scale):
        pass

    model, compiled = Local(1.0), cdynamo.optimize(Scale.__call__)
    for i in range(50):
        Local.kind = float(i) + 0.5  # floats leave their place to the next one
        np.testing.assert_allclose(compiled(model, X), X * (i + 0.5))


def test_a_number_where_another_entry_had_an_array(counts):
    # Whether an input that is written to shares memory with others is asked of arrays alone.
    def total(p, q, r):
        return p + q + r

    def scale(x, y, factor):
        x *= factor
        return y * factor + x

    fast_total, fast_scale = cdynamo.optimize(total), cdynamo.optimize(scale)
    x, y = X.copy(), X + 1
    for i in range(12):
        for arrays in ((x, x, x), (X, x, X)):
            np.testing.assert_allclose(fast_total(*arrays), total(*arrays))
        expected = x.copy()
        wanted = scale(expected, y, 0.5 + i / 7)
        np.testing.assert_allclose(fast_scale(x, y, 0.5 + i / 7), wanted)
        np.testing.assert_allclose(x, expected)
        if i == 4:
            compiled_before, hits_before = counts.frames_compiled, counts.cache_hits
    assert counts.frames_compiled == compiled_before
    assert counts.cache_hits - hits_before == 7 * 3


def test_values_at_the_address_of_old_ones():
    # Floats and tuples that are dropped leave their place to the next one of their kind.
    model, compiled = Model(), cdynamo.optimize(Model.__call__)
    plain = Model()
    warm(compiled, model, X)
    for i in range(50):
        for m in (model, plain):
            m.scale.factor = None
            m.scale.factor = 1.0 + i % 3
            m.sizes = None
            m.sizes = (2, np.full(4, float(i % 4)))
        np.testing.assert_allclose(compiled(model, X), plain(X))


def test_an_attribute_that_changes_with_every_call():
    model, compiled = Model(), cdynamo.optimize(Model.__call__)
    expected = Model()(X)
    for _ in range(40):
        model.calls += 1
        model.scale.note = object()
        np.testing.assert_allclose(compiled(model, X), expected)


def test_models_in_turn_and_new_ones():
    compiled = cdynamo.optimize(Model.__call__)
    models = [Model() for _ in range(3)]
    for i, model in enumerate(models):
        model.shift.by = float(i)
    for _ in range(30):
        for model in models:
            np.testing.assert_allclose(compiled(model, X), model(X))
    for i in range(30):
        model = Model()
        model.scale.factor = float(i % 2)
        np.testing.assert_allclose(compiled(model, X), model(X))
        warm(compiled, model, X)


def test_nothing_is_kept_alive():
    compiled = cdynamo.optimize(Model.__call__)
    model = Model()
    warm(compiled, model, X)
    seen = [weakref.ref(part) for part in (model, model.scale, model.table["weights"], model.parts[0])]
    del model
    gc.collect()
    assert [ref() for ref in seen] == [None] * 4
    np.testing.assert_allclose(compiled(Model(), X), Model()(X))


FACTOR = 2.0


def test_globals_and_closures_that_change():
    by = 1.0
    part = Scale(3.0)

    def f(x):
        return part(x) * FACTOR + by

    def g(x):
        return part(x) * FACTOR + by

    compiled = cdynamo.optimize(f)
    for value in (2.0, 3.0, 4.0):
        globals()["FACTOR"] = value
        for by in (1.0, 5.0):
            part.factor = by + value
            warm(compiled, X)
            np.testing.assert_allclose(compiled(X), g(X))
            part = Scale(by)
            np.testing.assert_allclose(compiled(X), g(X))
    globals()["FACTOR"] = 2.0


def test_attributes_stay_where_they_were():
    """3.13: they move from the object to its dict, which nobody sees."""
    scale = Scale(3.0)
    scale.second, scale.third = 1, 2
    held = vars(scale)
    compiled = cdynamo.optimize(lambda x: scale(x))
    names = []
    for name in held:  # the calls come while it is iterated over
        names.append(name)
        for _ in range(10):
            assert np.array_equal(compiled(X), X * 6)
    assert names == list(vars(scale)) == ["factor", "second", "third"] and vars(scale) is held
    scale.factor = 1.5
    assert held["factor"] == 1.5 and np.array_equal(compiled(X), X * 3)
    held["kind"] = 4.0
    assert np.array_equal(compiled(X), X * 6)
    del scale.kind, scale.second
    assert list(held) == ["factor", "third"] and np.array_equal(compiled(X), X * 3)
    another = Scale(1.0)  # of the class, whose instances share their keys
    assert list(vars(another)) == ["factor"] and another(1.0) == 2


def test_a_class_that_has_no_version_any_more():
    """From Python 3.13 on a class has a thousand of them: what it holds is compared then."""

    class Base:
        pass

    class Scale(Base):
        by = 2

        def run(self, x):
            return x * self.by

    for i in range(3_000):
        Base.turn = i
        assert Scale.turn == i
    scale = Scale()
    compiled = cdynamo.optimize(lambda x: scale.run(x), fullgraph=True)
    before = cdynamo.counters()["frames_compiled"]
    for _ in range(3):
        assert compiled(np.ones(2)).tolist() == [2, 2]
    assert cdynamo.counters()["frames_compiled"] == before + 1
    Scale.by = 3
    assert compiled(np.ones(2)).tolist() == [3, 3]
    Scale.run = lambda self, x: x + 10
    assert compiled(np.ones(2)).tolist() == [11, 11]
