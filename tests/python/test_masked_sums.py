"""A sum of what a mask selects reads all elements in order: nothing is brought together, in the backward neither."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

pytestmark = pytest.mark.native

# Of x, y and a mask m.
SUMS = {
    "sum": lambda x, y, m: x[m].sum(),
    "mean": lambda x, y, m: x[m].mean(),
    "masked_select": lambda x, y, m: torch.masked_select(x, m).sum(),
    "where": lambda x, y, m: x[torch.where(m)].sum(),
    "squared difference": lambda x, y, m: ((x[m] - y[m]) ** 2).mean(),
    "mse_loss": lambda x, y, m: F.mse_loss(x[m], y[m]),
    "of another dtype": lambda x, y, m: x.bfloat16()[m].float().sum(),
    "whole numbers": lambda x, y, m: x[m].long().sum(),
    "divided by its size": lambda x, y, m: x[m].sum() / x[m].numel(),
    "beside a number of all": lambda x, y, m: (x[m] * y.sum()).sum(),
    "variance": lambda x, y, m: x[m].var(),
    "two": lambda x, y, m: (x[m].sum(), (x[m] * y[m]).sum()),
    "two masks": lambda x, y, m: x[m].sum() + x[y > 0].mean(),
}
# What is computed of elements that are not selected is not finite.
OF_SOME = {
    "logarithm": lambda x, y, m: x[x > 0].log().sum(),
    "root": lambda x, y, m: (y[x > 0] / x[x > 0].sqrt()).sum(),
    "quotient": lambda x, y, m: (y.sum() / x[x != 0]).sum(),
    "power": lambda x, y, m: (x[x > 0] ** y[x > 0]).sum(),
}
# Masks of one expression are counted one by one: their elements are brought together.
COUNTED_TWICE = {"root", "power"}
# Selected elements that are wanted for themselves, or in another order.
OTHERS = {
    "elements too": lambda x, y, m: (x[m].sum(), x[m]),
    "sizes": lambda x, y, m: (x[m].sum(), x[m].shape[0]),
    "in order": lambda x, y, m: x[m].cumsum(0).sum(),
    "rows": lambda x, y, m: x[m.reshape(len(m), -1)[:, 0]].sum(),
    "places in another tensor": lambda x, y, m: x.flatten().flip(0)[m.flatten().nonzero()[:, 0]].sum(),
}
SIZES = [(1000,), (40, 25), (3, 1, 17), (2, 2), (1,)]


def check(f, sizes, share, trains):
    torch.manual_seed(0)
    x, y = torch.randn(sizes), torch.randn(sizes)
    x.view(-1)[::3] = 0.0
    mask = torch.rand(sizes) < share

    def run(function):
        leaves = [t.clone().requires_grad_(trains) for t in (x, y)]
        results = function(*leaves, mask)
        results = list(results) if isinstance(results, tuple) else [results]
        losses = [r.float().sum() for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
        if losses:
            results += torch.autograd.grad(sum(losses), leaves, allow_unused=True)
        return results

    for got, wanted in zip(run(cdynamo.optimize(f)), run(f), strict=True):
        assert type(got) is type(wanted)
        if isinstance(wanted, torch.Tensor):
            torch.testing.assert_close(got, wanted, equal_nan=True, rtol=1e-4, atol=1e-5)
        else:
            assert got == wanted


@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", [*SUMS, *OF_SOME, *OTHERS])
def test_results(name, trains, counts):
    for sizes in SIZES:
        for share in (0.5, 2.0, 0.0):
            cdynamo.reset()
            check({**SUMS, **OF_SOME, **OTHERS}[name], sizes, share, trains)
    assert counts.graph_breaks == 0


@pytest.mark.parametrize("sizes", [(1000,), (40, 25), (90, 91)])
@pytest.mark.parametrize("name", sorted({*SUMS, *OF_SOME} - COUNTED_TWICE))
def test_nothing_is_brought_together(name, sizes):
    x, y = torch.randn(sizes, requires_grad=True), torch.randn(sizes)
    f = {**SUMS, **OF_SOME}[name]
    with torch.no_grad():
        (graph,) = cdynamo.explain(f)(x, y, y > 0).stage("inference")
    text = graph.print_readable(False)
    assert "core.index(" not in text and "core.compress(" not in text and "core.running_counts(" not in text
    if name != "whole numbers":
        (graph,) = cdynamo.explain(f)(x, y, y > 0).stage("joint")
        assert "core.index" not in graph.print_readable(False)


def test_sizes_that_change():
    f = lambda x, y, m: ((x[m] - y[m]) ** 2).mean()
    fast = cdynamo.optimize(f, dynamic=True)
    for n in (1000, 1001, 15, 16, 17, 33, 2):
        x, y = torch.randn(n), torch.randn(n)
        torch.testing.assert_close(fast(x, y, x > -1), f(x, y, x > -1), equal_nan=True)


def test_places_out_of_range():
    """The places of one mask may be none of a shorter tensor."""

    def f(x, y):
        places = (x > 0).nonzero()[:, 0]
        return y[places].sum()

    fast = cdynamo.optimize(f)
    x, y = torch.tensor([1.0, -1.0, 1.0]), torch.arange(4.0)
    assert fast(x, y) == f(x, y) == 2
    for function in (f, fast):
        with pytest.raises(IndexError, match="index 2 is out of bounds"):
            function(x, y[:2])
