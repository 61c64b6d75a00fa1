"""Sets and dicts of tensors, which hash by identity: compiled code goes through them in plain Python's order."""

from __future__ import annotations

import gc
import weakref

import pytest

import cdynamo

torch = pytest.importorskip("torch")

ORDERS = {
    "iterated": lambda s, d, x: ([p for p in s], x * 2),
    "copied": lambda s, d, x: ([p for p in set(s)], x * 2),
    "united": lambda s, d, x: ([p for p in s | set(d)], x * 2),
    "without one": lambda s, d, x: ([p for p in s - {next(iter(d))}], x * 2),
    "of a dict": lambda s, d, x: ([p for p in d], x * 2),
    "made of a dict": lambda s, d, x: ([p for p in set(d)], x * 2),
    "sorted": lambda s, d, x: (sorted(s, key=len), x * 2),
    "taken": lambda s, d, x: ([set(s).pop()], x * 2),
}


@pytest.mark.parametrize("kind", [torch.Tensor, torch.nn.Parameter])
@pytest.mark.parametrize("order", ORDERS)
def test_order(order, kind):
    f, x = ORDERS[order], torch.ones(1)
    fast = cdynamo.optimize(f, fullgraph=True)
    for size in (3, 30, 3):
        tensors = [torch.ones(3) * i for i in range(size)]
        if kind is torch.nn.Parameter:
            tensors = [kind(t) for t in tensors]
        s = set(tensors)
        d = dict.fromkeys(tensors)
        for _ in range(2):
            got, expected = fast(s, d, x), f(s, d, x)
            assert [id(p) for p in got[0]] == [id(p) for p in expected[0]]


def test_tensors_are_told_by_identity():
    def f(s, x, y):
        z = x + 1
        return (
            x in s,
            y in s,
            z in s,
            z in {z},
            (x, y) in {(x, y)},
            x.add_(1) in {x},
            len({x, y, z, x}),
            {x: 1, y: 2}[y],
        )

    fast = cdynamo.optimize(f, fullgraph=True)
    x, y = torch.ones(3), torch.ones(3)
    for s in ({x}, {y}, {x, y}, set()):
        assert fast(s, x, y) == f(s, x, y)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_guards_hold_no_parameter_of_an_optimizer(optimizer):
    """Its state is a dict that has them as keys, and the code of step() is the module's."""

    def trained():
        net = torch.nn.Linear(3, 2)
        options = {"momentum": 0.9} if optimizer is torch.optim.SGD else {}
        step = optimizer(net.parameters(), lr=0.1, **options)
        fast = cdynamo.optimize(step.step)
        for _ in range(3):
            step.zero_grad()
            net(torch.ones(1, 3)).sum().backward()
            fast()
        return [weakref.ref(p) for p in net.parameters()]

    references = trained()
    gc.collect()
    assert not any(r() is not None for r in references)


@pytest.mark.parametrize("kind", [set, dict.fromkeys])
def test_what_has_died_is_not_none(kind):
    def f(s, x):
        return x * 2, [type(p) for p in s]

    fast, x = cdynamo.optimize(f, fullgraph=True), torch.ones(1)
    tensor = torch.ones(3)
    assert fast(kind([tensor]), x)[1] == [torch.Tensor]
    del tensor
    assert fast(kind([None]), x)[1] == [type(None)]


def test_guards_hold_no_tensor_of_a_set():
    def f(s, x):
        for p in s:
            x = x + p.sum()
        return x

    fast, x = cdynamo.optimize(f, fullgraph=True), torch.ones(1)
    s = {torch.nn.Parameter(torch.ones(3) * i) for i in range(3)}
    torch.testing.assert_close(fast(s, x), f(s, x))
    references = [weakref.ref(p) for p in s]
    del s
    gc.collect()
    assert not any(r() is not None for r in references)
