"""What a mask selects: elements, their places, and what is made of them, over one block of the mask and several."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.native

# Of x and a mask m.
SELECTIONS = {
    "elements": lambda x, m: x[m],
    "elements of something computed": lambda x, m: (x * 2 + 1)[m] - 1,
    "two tensors": lambda x, m: (x[m], x.abs()[m] * x[m]),
    "masked_select": lambda x, m: torch.masked_select(x, m),
    "places": lambda x, m: m.nonzero(),
    "places of a computed mask": lambda x, m: (x > 0.5).nonzero(as_tuple=True),
    "places and elements": lambda x, m: (m.nonzero(), x[m]),
    "transposed": lambda x, m: x.t()[m.t()] if x.dim() == 2 else x.flip(0)[m.flip(0)],
    "another dtype": lambda x, m: (x.bfloat16()[m], x.long()[m], x.double()[m], (x > 0)[m]),
    "written": lambda x, m: x.clone().masked_scatter(m, x * 3),
    "assigned": lambda x, m: torch.where(m, x, 0).index_put((m,), x[m] * 2),
    "number of them": lambda x, m: (x[m].shape[0], m.sum()),
    "mask of a mask": lambda x, m: x[m][x[m] > 0],
}
SIZES = [(1,), (7,), (100, 41), (4096,), (5000,), (3, 8192), (9001,)]


def both(f, x, mask, trains=False):
    for function in (cdynamo.optimize(f), f):
        leaf = x.clone().requires_grad_(trains)
        results = function(leaf, mask)
        results = list(results) if isinstance(results, tuple) else [results]
        losses = [(r.float() * r.float()).sum() for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
        yield results + (list(torch.autograd.grad(sum(losses), [leaf])) if losses else [])


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", SELECTIONS)
def test_results(name, trains):
    torch.manual_seed(0)
    for sizes in SIZES:
        for share in (0.5, 0.01, 1.0, 0.0):
            cdynamo.reset()
            x, mask = torch.randn(sizes), torch.rand(sizes) < share
            for got, wanted in zip(*both(SELECTIONS[name], x, mask, trains), strict=True):
                if isinstance(wanted, torch.Tensor):
                    torch.testing.assert_close(got, wanted)
                else:
                    assert got == wanted


@pytest.mark.parametrize("name", SELECTIONS)
def test_sizes_that_change(name, counts):
    fast = cdynamo.optimize(SELECTIONS[name], dynamic=True)
    for n in (1000, 1001, 15, 16, 4096, 4097, 20000, 2):
        x = torch.randn(n)
        got, wanted = fast(x, x > 0), SELECTIONS[name](x, x > 0)
        for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, wanted)), strict=True):
            assert torch.equal(a, b) if isinstance(b, torch.Tensor) else a == b


def test_elements_need_no_places():
    x = torch.randn(100, 100)
    for trains in (False, True):
        (graph,) = cdynamo.explain(lambda x, m: x[m] * 2)(x.requires_grad_(trains), x > 0).stage(
            "joint" if trains else "inference"
        )
        text = graph.print_readable(False)
        assert "core.compress(" in text and "core.index(" not in text and "core.index_put(" not in text
    (graph,) = cdynamo.explain(lambda x, m: (x[m], m.nonzero()))(x.detach(), x > 0).stage("inference")
    assert "core.index(" in graph.print_readable(False)


def test_sizes_of_sizes_that_are_read():
    """Each turn slices by what it has read of the last one's result: sizes of sizes, in a few parts each."""

    def f(x):
        for _ in range(17):
            x = (x / 2).ravel()[(x[[0, 1]].flip(0) > 2).ravel()[:1].sum() :]
        return x

    compiled = cdynamo.optimize(f)
    for rows in (17, 30, 5):
        x = torch.arange(4.0 * rows, dtype=torch.float64).reshape(4, rows).T
        torch.testing.assert_close(compiled(x), f(x))


@pytest.mark.parametrize("backend", ["native", "eager"])
def test_where_as_a_method(backend):
    """Its own tensor is what is selected, not the condition."""
    function = lambda a, b, c: (a.where(b, c), a.float().where(b, 0.5), a.where(condition=c, other=b))  # noqa: E731
    a, b, c = (torch.tensor(bits) > 0 for bits in ([1, 0, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]))
    compiled = cdynamo.optimize(function, fullgraph=True, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(compiled(a, b, c), function(a, b, c))
    x, y = (torch.linspace(-1, 1, 4).requires_grad_() for _ in range(2))
    method = lambda x, y, m: (x.exp().where(m, y) * y.detach().where(x > 0, 2.0)).sum()  # noqa: E731
    expected = torch.autograd.grad(method(x, y, b), [x, y])
    got = torch.autograd.grad(cdynamo.optimize(method, fullgraph=True, backend=backend)(x, y, b), [x, y])
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize(
    "select",
    [
        lambda x: x.sort(-1),
        lambda x: torch.sort(x, dim=0, descending=True),
        lambda x: torch.sort(x, stable=True),
        lambda x: x.t().sort(0),
        lambda x: x.topk(3),
        lambda x: torch.topk(x, 2, 0),
        lambda x: x.kthvalue(2),
        lambda x: torch.kthvalue(x, 2, 0, True),
        lambda x: x.median(1),
        lambda x: torch.nanmedian(x, -1, keepdim=True),
        lambda x: x.mode(0),
        lambda x: x.cummax(1),
        lambda x: torch.cummin(x, 0),
    ],
)
def test_selected_values_are_differentiated_by_their_indices(select):
    """Without making the call again: the derivative of a library call would."""

    def run(function):
        x = torch.randn(4, 5, generator=torch.Generator().manual_seed(1)).requires_grad_()
        found = function(x)
        values, indices = found
        weight = torch.linspace(0, 1, values.numel()).reshape(values.shape)
        (gradient,) = torch.autograd.grad((values * weight).sum(), x)
        facts = type(found), values.stride(), values.requires_grad, indices.requires_grad
        return facts, values.detach(), indices, gradient

    expected = run(select)
    compiled = cdynamo.optimize(select, fullgraph=True)
    for got in (run(compiled), run(cdynamo.optimize(select, dynamic=True))):
        assert expected[0] == got[0]
        assert all(torch.equal(a, b) for a, b in zip(expected[1:], got[1:]))
    (backward,) = cdynamo.explain(select)(torch.randn(4, 5, requires_grad=True)).stage("backward")
    row_major = list(expected[0][1]) == sorted(expected[0][1], reverse=True)
    assert not row_major or "_backward(" not in backward.print_readable(print_output=False)


def test_a_sum_of_a_size_that_cannot_be():
    """What stands beside it says that the mask selects nothing: where it did, eager raises there."""

    def f(x, y):
        rest = y[(x > 3).sum() :]
        rest + y
        return rest[1:].sum()

    y = torch.arange(3.0)
    for x in (torch.arange(9.0), torch.zeros(9)):
        try:
            expected = f(x, y)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error)[:20]):
                cdynamo.optimize(f, dynamic=True)(x, y)
        else:
            assert torch.equal(cdynamo.optimize(f, dynamic=True)(x, y), expected)


def test_a_bool_that_selects_all_of_it_or_nothing():
    def f(x, y):
        x, more = x * 2, x.sum() > 3
        x[more] = 1.0
        y[..., more] = y.max()
        x[~more, None] = y[0, 0]
        return x

    compiled = cdynamo.optimize(f, fullgraph=True)
    before = cdynamo.counters()["calls_in_python"]
    for x in (torch.zeros(2, 3), torch.ones(2, 3), torch.ones(4, 3), torch.zeros(())):
        results = []
        for function in (f, compiled):
            leaf, y = x.clone().requires_grad_(), torch.arange(6.0).view(2, 3)
            result = function(leaf, y)
            results.append((result, y, *torch.autograd.grad(result.sum(), [leaf])))
        assert all(torch.equal(*each) for each in zip(*results, strict=True))
    assert cdynamo.counters()["calls_in_python"] == before


def test_what_a_bool_selects_is_read_in_python():
    """Its size is 0 or 1, and nothing else."""

    def f(x):
        return x[x.sum() > 3] * 2

    compiled = cdynamo.optimize(f)
    for x in (torch.zeros(2, 3), torch.ones(2, 3)):
        assert torch.equal(compiled(x), f(x))
    with pytest.raises(cdynamo.GraphBreakError, match="a 0-d bool"):
        cdynamo.optimize(f, fullgraph=True)(x)
