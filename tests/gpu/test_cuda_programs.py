"""Programs on a CUDA device: equal to eager, one graph, no break. Skipped where there is no device."""

from __future__ import annotations

import copy

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


def gradients(model, x, run):
    model.zero_grad()
    run(x).float().square().mean().backward()
    return [p.grad.double() for p in model.parameters()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_training_is_as_exact_as_eager(dtype):
    model = nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 10))
    model = model.to(DEVICE, dtype)
    x = randn(32, 64, dtype=dtype)
    exact_model = copy.deepcopy(model).double()
    exact = gradients(exact_model, x.double(), exact_model)
    eager = gradients(model, x, model)
    got = gradients(model, x, cdynamo.optimize(model))
    for of_exact, of_eager, of_got in zip(exact, eager, got, strict=True):
        assert (of_got - of_exact).norm() <= 1.5 * (of_eager - of_exact).norm() + 1e-7 * of_exact.norm()


# cuBLAS has fast kernels for rows that are aligned alone: these products are padded (graph/passes/pad_products).
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("columns", [20_001, 20_002, 20_004])
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_products_whose_rows_end_anywhere(dtype, columns, mode):
    torch.manual_seed(0)
    x, weight = randn(2, 512, 256), randn(columns, 256)
    target = integers(columns, 2, 512)

    def loss_of(x, weight):
        logits = F.linear(x, weight)
        return logits, F.cross_entropy(logits.float().flatten(0, 1), target.flatten())

    def run(function, x, weight):
        x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
        logits, loss = function(x, weight)
        assert logits.is_contiguous()
        return logits, loss, *torch.autograd.grad(loss, (x, weight))

    halves = x.to(dtype) / 16, weight.to(dtype)
    exact = run(loss_of, *(each.double() for each in halves))
    eager = run(loss_of, *halves)
    compiled = cdynamo.optimize(loss_of, mode=mode)
    for _ in range(4):
        for of_exact, of_eager, of_got in zip(exact, eager, run(compiled, *halves), strict=True):
            assert (of_got - of_exact).norm() <= 1.5 * (of_eager - of_exact).norm() + 1e-6 * of_exact.norm()
    with torch.no_grad():
        logits = compiled(*halves)[0]
        assert logits.is_contiguous()
        torch.testing.assert_close(logits, eager[0], rtol=2e-2, atol=2e-2)


def perceptron():
    layers = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 10)]
    return nn.Sequential(*layers).to(DEVICE)


MODES = ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]


@pytest.mark.parametrize("mode", MODES)
def test_results_stay_what_they_were(mode):
    model = perceptron().eval()
    compiled = cdynamo.optimize(model, mode=mode)
    with torch.no_grad():
        inputs = [randn(16, 64) for _ in range(12)]
        results = [compiled(x) for x in inputs]  # all are held: each has memory of its own
        for x, result in zip(inputs, results, strict=True):
            torch.testing.assert_close(result, model(x))
        for x in inputs * 3:  # these come with addresses that were there before
            torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("mode", MODES)
def test_weights_that_change_are_seen(mode):
    model = perceptron()
    compiled = cdynamo.optimize(model, mode=mode)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(12):
        x = randn(16, 64)
        want = gradients(model, x, model)
        got = gradients(model, x, compiled)
        for of_want, of_got in zip(want, got, strict=True):
            torch.testing.assert_close(of_got, of_want, rtol=1e-4, atol=1e-6)
        optimizer.step()


def test_replays_of_changing_sizes_and_streams():
    model = perceptron().eval()
    compiled = cdynamo.optimize(model, mode="reduce-overhead", dynamic=True)
    with torch.no_grad():
        for rows in [3, 5, 3, 5, 3, 5, 7] * 4:
            x = randn(rows, 64)
            torch.testing.assert_close(compiled(x), model(x))
        x = randn(16, 64)
        side = torch.cuda.Stream()
        for _ in range(8):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                y = compiled(x)
            torch.cuda.current_stream().wait_stream(side)
            y.record_stream(torch.cuda.current_stream())
            torch.testing.assert_close(y, model(x))


def test_inside_of_a_graph_of_the_framework():
    model = perceptron().eval()
    for mode in ("default", "reduce-overhead"):
        compiled = cdynamo.optimize(model, mode=mode)
        with torch.no_grad():
            x = randn(16, 64)
            for _ in range(3):
                compiled(x)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = compiled(x)
            x.copy_(randn(16, 64))
            graph.replay()
            torch.testing.assert_close(y, model(x))


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


@pytest.mark.parametrize(
    ("sizes", "dim"),
    [((300, 4096), -1), ((300, 4097), -1), ((2000, 500), 0), ((2_000_000,), 0), ((3, 1_000_003), 1), ((9000, 33), 0),
     ((64, 100, 50), 1), ((100_000, 16), -1)],
)  # fmt: skip
def test_scans_are_as_exact_as_eager(sizes, dim):
    def scans(x):
        return x.cumsum(dim), (1 + x * 1e-4).cumprod(dim), x.long().cumsum(dim)

    torch.manual_seed(0)
    x = randn(*sizes)
    fast = cdynamo.optimize(scans, fullgraph=True)
    got, again, eager, exact = fast(x), fast(x), scans(x), scans(x.double())
    for result, repeated, by_eager, wanted in zip(got, again, eager, exact, strict=True):
        assert torch.equal(result, repeated)
        distance = (result.double() - wanted.double()).norm()
        assert distance <= (by_eager.double() - wanted.double()).norm() + 1e-6 * wanted.double().norm()


def test_scans_and_logarithms_of_halves():
    def function(x):
        return x.cumsum(0), x.cumsum(1), x.log_softmax(-1), x.log_softmax(0)

    torch.manual_seed(0)
    x = randn(5, 12, 7, dtype=torch.bfloat16)
    sums, more_sums, *logarithms = cdynamo.optimize(function, fullgraph=True)(x)
    expected = function(x)
    assert torch.equal(sums, expected[0]) and torch.equal(more_sums, expected[1])
    for got, want in zip(logarithms, expected[2:], strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_no_memory_is_the_framework_s_error(mode):
    x = torch.ones(1 << 21, 1, device=DEVICE)
    functions = [
        lambda x: x.expand(1 << 21, 1 << 20) + 1,
        lambda x: ((x.expand(1 << 21, 1 << 20) + 1).cumsum(0) * 2).sum(),  # an intermediate
    ]
    for function in functions:
        fast = cdynamo.optimize(function, mode=mode)
        for _ in range(2):
            with pytest.raises(torch.OutOfMemoryError):
                fast(x)
    assert torch.equal(cdynamo.optimize(lambda x: x + 1)(x), x + 1)


@pytest.mark.parametrize("scale", [1.0, 3e5])
@pytest.mark.parametrize("size", [1, 5, 4099, 100_000])
def test_some_huge_arguments_among_others(size, scale):
    """The branch to what is rare is one for all points of a thread; others keep what they had."""
    torch.manual_seed(0)
    x = randn(size)
    x[:: max(1, size // 7)] *= scale

    def f(x):
        return x.sin(), x.cos() * 2 + x.tan(), x.sin().cos()

    with torch.no_grad():
        for got, want in zip(cdynamo.optimize(f)(x), f(x.double()), strict=True):
            torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_by_the_algorithm_that_is_fastest_here(mode, dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(96, 200), nn.ReLU(), nn.Linear(200, 33)).to(DEVICE, dtype)
    left, right = randn(3, 40, 96, dtype=dtype), randn(3, 96, 40, dtype=dtype)

    def f(left, right):
        return model(left), left @ right + 1, torch.baddbmm(left @ right, left, right, beta=0.5)

    with torch.no_grad():
        fast = cdynamo.optimize(f, mode=mode, fullgraph=True)
        for _ in range(4):  # timed, and replayed
            for got, want in zip(fast(left, right), f(left, right), strict=True):
                tolerance = 1e-5 if dtype == torch.float32 else 2e-2
                torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance * want.abs().max().item())
