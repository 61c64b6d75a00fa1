"""Programs on a CUDA device: equal to eager, one graph, no break. Skipped where there is no device."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import cdynamo  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.native,
]
DEVICE = "cuda:0"


def softmax(x):
    e = torch.exp(x - x.max(dim=-1, keepdim=True).values)
    return e / e.sum(dim=-1, keepdim=True)


def randn(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, dtype=dtype, device=DEVICE)


def integers(high, *sizes):
    return torch.randint(0, high, sizes, device=DEVICE)


PROGRAMS = {
    "pointwise": (lambda x, y: x * y + 1.0, lambda: (randn(1000), randn(1000))),
    "broadcast": (lambda x, y: x * y + 1.0, lambda: (randn(37, 1, 5), randn(8, 1))),
    "huge arguments": (lambda x: torch.sin(x) + torch.cos(x), lambda: (randn(1000) * 1e20,)),
    "short rows": (softmax, lambda: (randn(100, 10),)),
    "rows": (softmax, lambda: (randn(64, 2048),)),
    "long rows": (softmax, lambda: (randn(3, 100_001),)),
    "columns": (lambda x: x.sum(0), lambda: (randn(1000, 77),)),
    "everything": (lambda x: torch.exp(torch.cos(x)).sum(), lambda: (randn(1000, 1000),)),
    "extremum": (lambda x: (x.argmax(-1), x.amin(0)), lambda: (randn(50, 3000),)),
    "transposed": (lambda x: x.t().contiguous() + 1, lambda: (randn(100, 300),)),
    "half": (lambda x: torch.sigmoid(x) * x, lambda: (randn(4099, dtype=torch.bfloat16),)),
    "double": (lambda x: torch.log1p(x * x), lambda: (randn(500, dtype=torch.float64),)),
    "integers": (lambda x: x // 3 + x % 5, lambda: (integers(1000, 777),)),
    "gather": (lambda w, i: w[i] * 2, lambda: (randn(100, 17), integers(100, 33))),
    "embedding": (lambda w, i: F.embedding(i, w).mean(1), lambda: (randn(100, 64), integers(100, 8, 5))),
    "scan": (lambda x: x.cumsum(-1), lambda: (randn(9, 500),)),
    "misaligned": (lambda x: x * 2, lambda: (randn(1001)[1:],)),
    "product": (lambda x, y: x @ y + x.sum(1, keepdim=True), lambda: (randn(100, 60), randn(60, 30))),
    "factories": (
        lambda x: torch.zeros_like(x) + x + torch.ones(5, device=DEVICE).sum(),
        lambda: (randn(100),),
    ),
    "in place": (lambda x: x.clone().mul_(2).add_(1), lambda: (randn(100),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_to_eager(name):
    function, make = PROGRAMS[name]
    args = make()
    want = function(*args)
    before = cdynamo.counters()
    got = cdynamo.optimize(function)(*args)
    torch.testing.assert_close(got, want)
    after = cdynamo.counters()
    assert after["graphs_compiled"] - before["graphs_compiled"] == 1
    assert after["graph_breaks"] == before["graph_breaks"]


def test_sizes_change_from_call_to_call():
    before = cdynamo.counters()["graphs_compiled"]
    compiled = cdynamo.optimize(softmax, dynamic=True)
    for rows, columns in [(4, 100), (7, 1000), (3, 5000), (200, 33)]:
        x = randn(rows, columns)
        torch.testing.assert_close(compiled(x), softmax(x))
    assert cdynamo.counters()["graphs_compiled"] - before == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_training(dtype):
    model = nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 10))
    model = model.to(DEVICE, dtype)
    x = randn(32, 64, dtype=dtype)
    model(x).float().square().mean().backward()
    want = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    cdynamo.optimize(model)(x).float().square().mean().backward()
    for p, gradient in zip(model.parameters(), want, strict=True):
        torch.testing.assert_close(p.grad, gradient, rtol=2e-2 if dtype == torch.bfloat16 else 1e-4, atol=1e-5)


def test_a_tensor_knows_its_device():
    def where(x):
        return x.device, x.is_cuda, x.is_cpu, x.get_device(), (x + 1).device

    x = randn(3)
    assert cdynamo.optimize(where)(x) == where(x)


def test_another_device_is_another_graph():
    def double(x):
        return x * 2

    compiled = cdynamo.optimize(double)
    x = torch.randn(5)
    assert compiled(x.to(DEVICE)).device == torch.device(DEVICE)
    assert compiled(x).device == torch.device("cpu")


def test_an_index_out_of_range_raises_in_the_next_call():
    compiled = cdynamo.optimize(lambda w, i: w[i] * 2)
    w, i = randn(10, 4), torch.tensor([1, 2], device=DEVICE)
    compiled(w, i)
    compiled(w, torch.tensor([1, 20], device=DEVICE))
    torch.cuda.synchronize()
    with pytest.raises(IndexError, match="index 20 is out of bounds for dimension with size 10"):
        compiled(w, i)
    torch.testing.assert_close(compiled(w, i), w[i] * 2)
