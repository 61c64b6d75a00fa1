"""One compilation for all sizes runs on sizes below, at and above the widths of vectors, warps and tiles, in both dims."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

pytestmark = pytest.mark.native

SIZES = [(3, 15), (16, 17), (17, 3), (33, 16), (2, 257), (129, 31), (65, 64), (15, 300)]
PROGRAMS = {
    "pointwise": lambda x, y: (x * y.sum(0) + x.sin()).relu(),
    "softmax": lambda x, y: x.softmax(-1) + y.softmax(0),
    "log_softmax": lambda x, y: F.log_softmax(x + y, 0),
    "layer norm": lambda x, y: F.layer_norm(x, x.shape[-1:]) * y,
    "batch norm": lambda x, y: F.batch_norm(x, None, None, training=True) * y,
    "scans": lambda x, y: (x.cumsum(0), y.cumsum(1), y.flip(0).cummax(0).values),
    "sums": lambda x, y: (x.t().sum(0), y.sum(0), (x * y).sum()),
    "extremes": lambda x, y: (x.amax(0), x.argmax(1), y.min(0).values),
    "transposed": lambda x, y: x.t() * y.t().exp(),
    "joined": lambda x, y: torch.cat([x[:, 1:], y], 1).mean(1) + torch.cat([x[1:], y[:1]], 0).sum(1),
    "moved": lambda x, y: x.roll(1, 0) + y.flip(1),
    "padded": lambda x, y: F.pad(x, (1, 2, 0, 1)).sum(0),
    "looked up": lambda x, y: x.gather(1, y.argsort(1)),
    "scattered": lambda x, y: torch.zeros_like(x).scatter_add(1, y.argsort(1), x),
    "masked": lambda x, y: (x[y > 0].sum(), x[y > 0], (x[y > 0] ** 2).mean()),
    "bfloat16": lambda x, y: x.bfloat16().softmax(-1).float() + y,
    "whole numbers": lambda x, y: (x * 10).long() // 3 + (y > 0).long().cumsum(1),
    "deviations": lambda x, y: (x - x.mean(0)) / (y.std(0) + 1),
    "parts": lambda x, y: x[1:, :-1] * y[:-1, 1:] + x[0, 0],
    "flags": lambda x, y: ((x > 1).any(0), (y > -3).all(1)),
}


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes(name, trains):
    torch.manual_seed(0)
    f = PROGRAMS[name]
    fast = cdynamo.optimize(f, dynamic=True)
    tolerance = 2e-2 if name == "bfloat16" else 1e-3

    def run(function, *given):
        leaves = [t.clone().requires_grad_(trains) for t in given]
        results = function(*leaves)
        results = list(results) if isinstance(results, tuple) else [results]
        losses = [r.square().sum() for r in results if r.requires_grad]
        if losses:
            results += torch.autograd.grad(sum(losses), leaves, allow_unused=True)
        return results

    for rows, columns in SIZES:
        given = [torch.randn(rows, columns) for _ in range(2)]
        for got, wanted in zip(run(fast, *given), run(f, *given), strict=True):
            if wanted is not None:
                torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
