"""Attributes of classes that captured code assigns, and the hooks of modules, whose ids a class counts."""

from __future__ import annotations

import pytest

import cdynamo


class Base:
    limit = 10
    log = []


class Counter(Base):
    calls = 0
    last = None
    step = 1

    def __init__(self):
        type(self).calls += 1
        self.number = self.calls

    @classmethod
    def count(cls, by):
        cls.calls += by
        return cls.calls

    def peek(self):
        return self.calls, self.last, super().limit


class Other(Counter):
    pass


def reset():
    for name in ("calls", "last", "extra", "limit"):
        for cls in (Counter, Other):
            if name in vars(cls):
                delattr(cls, name)
    Counter.calls, Counter.last, Base.limit = 0, None, 10


def counted(x):
    Counter.calls += 1
    return x + Counter.calls, Counter.calls, Other.calls


def by_methods(x):
    one, other = Counter(), Counter()
    found = one.number, other.number, one.calls, Counter.count(x), one.peek()
    return found, hasattr(Counter, "extra"), getattr(one, "extra", None)


def of_a_subclass(x):
    Other.calls = x
    Other.calls += Counter.calls
    return Other().number, Counter.calls, Other.calls


def new_names(x):
    found = hasattr(Counter, "extra")
    Counter.extra = [x]
    Counter.last = Counter.extra
    Counter.extra.append(x)
    return found, Counter.last, Counter().last, Other.extra is Counter.last


def through_super(x):
    Base.limit += x
    return Counter().peek(), Base.limit, Counter.limit


def swapped(x):
    before = Counter.step
    Counter.step = x
    try:
        return Counter().step, Counter.step
    finally:
        Counter.step = before


@pytest.mark.parametrize(
    "fn",
    [counted, by_methods, of_a_subclass, new_names, through_super, swapped],
    ids=lambda fn: fn.__name__,
)
def test_assignments(fn):
    cdynamo.reset()
    cdynamo.config.keep_empty_graphs = True

    def outcomes(call):
        reset()
        found = []
        for x in (1, 2, 2, 5, 7):
            found.append((call(x), Counter.calls, Counter.last, Base.limit, vars(Counter).get("extra")))
            found.append(vars(Other).get("calls"))
            if x == 5:
                Counter.calls = 100
        reset()
        return found

    expected = outcomes(fn)
    fast = cdynamo.optimize(fn, fullgraph=True)
    assert outcomes(fast) == expected
    assert outcomes(fast) == expected


def test_a_counter_is_compiled_once_for_all_numbers():
    torch = pytest.importorskip("torch")
    cdynamo.reset()
    reset()
    compiled = cdynamo.counters()["graphs_compiled"]
    fast = cdynamo.optimize(lambda x: counted(x)[0], fullgraph=True)
    for n in range(6):
        assert torch.equal(fast(torch.zeros(2)), torch.full((2,), n + 1.0))
    assert cdynamo.counters()["graphs_compiled"] - compiled <= 2
    reset()


def test_other_readers_see_what_was_assigned():
    cdynamo.reset()
    cdynamo.config.keep_empty_graphs = True
    reset()
    read = cdynamo.optimize(lambda: (Counter.calls, Other().calls), fullgraph=True)
    write = cdynamo.optimize(lambda: Counter.count(1), fullgraph=True)
    for _ in range(4):
        calls = Counter.calls
        assert read() == (calls, calls + 1) and Other.calls == calls + 1
        del Other.calls
        assert write() == calls + 1 == Counter.calls
    reset()


def test_methods_and_descriptors_are_left_to_python():
    def method(x):
        Counter.double = lambda self: x * 2
        try:
            return Counter().double()
        finally:
            del Counter.double

    cdynamo.reset()
    assert cdynamo.optimize(method)(2) == 4
    with pytest.raises(cdynamo.GraphBreakError):
        cdynamo.optimize(method, fullgraph=True)(2)
    reset()


# ---- hooks of modules


@pytest.fixture
def model():
    torch = pytest.importorskip("torch")
    cdynamo.reset()
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())


def seen(model, x):
    found = []
    handle = model[0].register_forward_hook(lambda module, inputs, output: found.append(output.sum()))
    y = model(x)
    handle.remove()
    return y, found[0], len(model[0]._forward_hooks)


def changed(model, x):
    with model[0].register_forward_hook(lambda module, inputs, output: output * 2):
        y = model(x)
    return y, model(x)


def before(model, x):
    first = model.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    double = lambda module, inputs, kwargs: ((inputs[0] * 2,), kwargs)  # noqa: E731
    second = model[0].register_forward_pre_hook(double, with_kwargs=True)
    y = model(x)
    first.remove()
    z = model(x)
    second.remove()
    return y, z, model(x)


def several(model, x):
    order = []
    handles = [
        model[0].register_forward_hook(lambda module, inputs, output, n=n: order.append(n), prepend=n == 2)
        for n in range(3)
    ]
    y = model(x)
    for handle in handles:
        handle.remove()
    return y, order, len(handles)


def kept(model, x):
    y = model(x)
    handle = model[1].register_forward_hook(lambda module, inputs, output: output + 1)
    return y, model(x), handle


@pytest.mark.parametrize("fn", [seen, changed, before, several], ids=lambda fn: fn.__name__)
def test_hooks_of_modules(model, fn):
    import torch
    from torch.utils.hooks import RemovableHandle

    compiled = cdynamo.counters()["graphs_compiled"]
    fast = cdynamo.optimize(fn, fullgraph=True)
    for _ in range(4):
        x = torch.randn(2, 4)
        start = RemovableHandle.next_id
        expected = fn(model, x)
        count = RemovableHandle.next_id - start
        torch.testing.assert_close(fast(model, x), expected)
        assert RemovableHandle.next_id - start == 2 * count
        assert not model[0]._forward_hooks and not model[0]._forward_pre_hooks and not model._forward_pre_hooks
    assert cdynamo.counters()["graphs_compiled"] - compiled == 1


def test_a_hook_that_stays(model):
    import torch

    fast = cdynamo.optimize(kept, fullgraph=True)
    x = torch.randn(2, 4)
    plain = model(x)
    for n in range(3):
        y, z, handle = fast(model, x)
        torch.testing.assert_close((y, z), (plain + n, plain + n + 1))
        torch.testing.assert_close(model(x), plain + n + 1)
        assert handle.id in model[1]._forward_hooks
    handle.remove()
    torch.testing.assert_close(model(x), plain + 2)
