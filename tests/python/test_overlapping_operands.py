"""Operators in place whose operands lie in the memory that they write to: refused as in eager, or computed as there."""

import pytest

torch = pytest.importorskip("torch")

import cdynamo  # noqa: E402

FIRST = torch.tensor([0])

REFUSED = {
    "transposed": lambda y: y.add_(y.T),
    "copy of the transposed": lambda y: y.copy_(y.T),
    "row": lambda y: y.copy_(y[0]),
    "item of an iterator": lambda y: y.copy_(next(iter(y.narrow(0, 0, 1)))),
    "element": lambda y: y.mul_(y[0, 0]),
    "second operand": lambda y: y.addcmul_(y.T, y),
    "lerp": lambda y: y.lerp_(y.T, 0.5),
    "clamp": lambda y: y.clamp_(y[0], None),
    "pow": lambda y: y.pow_(y[0]),
    "comparison": lambda y: y.eq_(y.T),
    "index_add": lambda y: y.index_add_(0, FIRST, y[1:2]),
    "index_add of itself": lambda y: y.index_add_(0, torch.arange(3), y),
    "index_copy": lambda y: y.index_copy_(0, FIRST, y[1:2]),
    "index_put": lambda y: y.index_put_((FIRST,), y[1]),
    "scatter": lambda y: y.scatter_(0, torch.zeros(1, 3, dtype=torch.long), y[1:2]),
}
COMPUTED = {
    "itself": lambda y: y.add_(y),
    "the same in other words": lambda y: y.add_(y.view(9).view(3, 3)),
    "detached": lambda y: y.copy_(y.detach()),
    "another row": lambda y: y[0].copy_(y[1]),
    "the same row": lambda y: y[0].add_(y[0]),
    "another dtype": lambda y: y.copy_(y[0].double()),
    "a copy": lambda y: y.add_(y[0].clone()),
    "number": lambda y: y.fill_(y[0, 0]),
    "masked number": lambda y: y.masked_fill_(y > 3, y[0, 0]),
    "mask": lambda y: y.__setitem__(y > 3, y[y > 3] * 2),
    "nothing": lambda y: y[:0].add_(y[:0]),
    "flipped": lambda y: y.copy_(y.flip(0)),
}


def outcome(f, made_here):
    def run(x):
        y = x * 1 if made_here else x
        try:
            f(y)
        except RuntimeError as error:
            return y * 2, str(error)
        return y * 2, None

    return run


def compare(f, made_here, **options):
    function = outcome(f, made_here)
    fast = cdynamo.optimize(function, **options)
    for _ in range(2):
        ends = []
        for run in (function, fast):
            x = torch.arange(9.0).view(3, 3)
            y, error = run(x)
            ends.append((x.tolist(), y.tolist(), error))
        assert ends[1] == ends[0]
    return ends[0][2]


@pytest.mark.parametrize("made_here", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_memory_that_is_read_and_written_is_refused(name, made_here):
    error = compare(REFUSED[name], made_here)
    assert error.startswith("unsupported operation: some elements of the input tensor")


@pytest.mark.parametrize("made_here", [False, True])
@pytest.mark.parametrize("name", COMPUTED)
def test_memory_that_is_not_shared_or_in_step_is_in_one_graph(name, made_here):
    assert compare(COMPUTED[name], made_here, fullgraph=True) is None


def test_numpy_reads_before_it_writes():
    import numpy as np

    def f(a):
        a += a.T
        a[1:] *= a[0]
        return a * 2

    a, b = np.arange(9.0).reshape(3, 3), np.arange(9.0).reshape(3, 3)
    assert cdynamo.optimize(f, fullgraph=True)(a).tolist() == f(b).tolist()
    assert a.tolist() == b.tolist()


def test_what_is_written_is_a_copy_and_what_is_read_may_lie_in_another():
    def f(a, b):
        return a.clone().sub_(b), a.clone().copy_(b)

    a = torch.randn(4, 6)
    before = cdynamo.counters()["graphs_compiled"]
    compiled = cdynamo.optimize(f, fullgraph=True)
    for b in (a[:1], a, torch.randn(1, 6)):
        for got, expected in zip(compiled(a, b), f(a, b), strict=True):
            assert torch.equal(got, expected)
    assert cdynamo.counters()["graphs_compiled"] - before <= 2


def test_what_is_read_of_two_views_beside_a_write():
    shared = torch.randn(3)
    views = {"one": shared, "other": shared.view(3)}

    def f(a):
        a.add_(views["one"])
        return views["other"] + 1

    compiled = cdynamo.optimize(f, fullgraph=True)
    for a in (torch.randn(3), torch.randn(3)):
        mine, theirs = a.clone(), a.clone()
        assert torch.equal(compiled(mine), f(theirs)) and torch.equal(mine, theirs)
    mine, theirs = views["one"].clone(), views["one"].clone()
    for target, function in ((mine, compiled), (theirs, f)):  # written to and looked at
        shared.copy_(torch.arange(3.0))
        result = function(shared)
        target.copy_(result)
    assert torch.equal(mine, theirs)
