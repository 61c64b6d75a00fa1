"""Running extrema with their places, running log-sum-exp: as eager's, short and in blocks, with gradients."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.native

SCANS = {
    "cummax": lambda x, dim: torch.cummax(x, dim),
    "cummin": lambda x, dim: x.cummin(dim),
    "cummax of something computed": lambda x, dim: (x * 2).cummax(dim).values - 1,
    "logcumsumexp": lambda x, dim: torch.logcumsumexp(x, dim),
}
SIZES = [
    ((), 0),
    ((1,), 0),
    ((7,), -1),
    ((0,), 0),
    ((5, 33), 0),
    ((5, 33), 1),
    ((3, 700, 2), 1),
    ((20011,), 0),
    ((2, 40000), 1),
]


def tuple_of(results):
    return results if isinstance(results, tuple) else (results,)


def check(f, x, dim, trains=False):
    got_all = []
    for function in (cdynamo.optimize(f), f):
        leaf = x.clone().requires_grad_(trains)
        results = tuple_of(function(leaf, dim))
        got = list(results)
        if trains:
            weights = torch.linspace(-1, 1, x.numel(), dtype=x.dtype).reshape(x.shape)
            got += torch.autograd.grad((results[0] * weights).sum(), [leaf])
        got_all.append(got)
    for got, wanted in zip(*got_all, strict=True):
        assert got.stride() == wanted.stride()
        torch.testing.assert_close(got, wanted, equal_nan=True, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", SCANS)
def test_results(name, trains, counts):
    torch.manual_seed(0)
    for sizes, dim in SIZES:
        for dtype in (torch.float64, torch.float32):
            cdynamo.reset()
            check(SCANS[name], torch.randn(sizes, dtype=dtype).mul(4).round().div(4), dim, trains)
    assert counts.graph_breaks == 0


@pytest.mark.parametrize("name", SCANS)
def test_special_values(name):
    inf, nan = float("inf"), float("nan")
    for values in ([1, nan, 2, nan, 3], [-inf, -inf, 1, inf, 2, inf], [inf, -inf, nan], [0.0, 0.0, -inf]):
        cdynamo.reset()
        check(SCANS[name], torch.tensor(values), 0)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64, torch.bfloat16, torch.float16])
def test_dtypes(dtype):
    x = torch.randint(0, 2 if dtype == torch.bool else 9, (4, 300)).to(dtype)
    for name in ("cummax", "cummin"):
        cdynamo.reset()
        check(SCANS[name], x, 1)


def test_names_and_errors():
    fast = cdynamo.optimize(lambda x: x.cummax(0))
    result = fast(torch.randn(9))
    assert type(result) is torch.return_types.cummax
    with pytest.raises(RuntimeError, match="not implemented for"):
        cdynamo.optimize(lambda x: x.logcumsumexp(0))(torch.arange(4))
    with pytest.raises(IndexError):
        cdynamo.optimize(lambda x: x.cummin(2))(torch.randn(4))


def test_forward_mode_derivatives_of_logcumsumexp(counts):
    low = -float("inf")

    def scan(a):
        return a.logcumsumexp(0)

    def derivatives(x, v):
        tangent = torch.func.jvp(scan, (x,), (v,))[1]
        return tangent, torch.func.jacfwd(scan)(x), torch.func.hessian(lambda a: scan(a).sin().sum())(x)

    for x in (torch.arange(3.0).double(), torch.tensor([400.0, -400.0, 0.0, 401.0]).double(), torch.randn(1)):
        for got, wanted in zip(cdynamo.optimize(derivatives)(x, x + 1), derivatives(x, x + 1), strict=True):
            torch.testing.assert_close(got, wanted)

    def tangents(x, v):
        return torch.func.jvp(scan, (x,), (v,))[1]

    x, v = torch.tensor([[low, 1.0], [low, low], [2.0, low]]), torch.ones(3, 2)
    torch.testing.assert_close(cdynamo.optimize(tangents)(x, v), tangents(x, v))
    assert counts.graph_breaks == 0
