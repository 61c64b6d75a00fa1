"""Attention that a program writes out by hand is one call of PyTorch's memory-efficient kernel where that is faster."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import cdynamo  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.native,
]


class MultiHead(torch.nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (torch.nn.Linear(size, size) for _ in range(4))

    def forward(self, x, y):
        def split(t):
            return t.view(*t.shape[:2], self.heads, -1).transpose(1, 2)

        query, key, value = split(self.query(x)), split(self.key(y)), split(self.value(y))
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        return self.out((scores.softmax(-1) @ value).transpose(1, 2).reshape(x.shape))


def distance(x, y):
    return (x.double() - y.double()).norm() / y.double().norm()


@pytest.fixture(autouse=True)
def _without_tf32():
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


def kernels(function):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        function()
        torch.cuda.synchronize()
    return " ".join(event.key for event in profile.key_averages())


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize(
    ("length", "keys", "heads"),
    [(512, 512, 4), (512, 800, 4), (1024, 512, 16), (300, 512, 4), (512, 300, 2), (64, 64, 4)],
)
def test_by_hand(length, keys, heads, mode):
    torch.manual_seed(0)
    model = MultiHead(128, heads).cuda()
    x, y = (torch.randn(3, n, 128, device="cuda", requires_grad=True) for n in (length, keys))
    fast = cdynamo.optimize(model, mode=mode, fullgraph=True)
    leaves = [x, y, *model.parameters()]

    def run(function):
        out = function(x, y)
        return out, *torch.autograd.grad(out.square().mean(), leaves)

    expected = run(model)
    before = cdynamo.counters()["calls_in_python"]
    for _ in range(4):
        # The gradient of the keys' bias is zero but for rounding.
        for got, want in zip(run(fast), expected, strict=True):
            assert got.stride() == want.stride()
            assert want.norm() < 1e-6 or distance(got, want) < 1e-4
    with torch.no_grad():
        for _ in range(3):
            assert distance(fast(x, y), expected[0]) < 1e-5
    assert cdynamo.counters()["calls_in_python"] == before
    if length == keys == 512:
        found = kernels(lambda: run(fast))
        assert "fmha_cutlassF" in found and "fmha_cutlassB" in found


def test_settings_are_asked():
    torch.manual_seed(0)
    model = MultiHead(128, 4).cuda().eval()
    x = torch.randn(2, 512, 128, device="cuda")
    fast = cdynamo.optimize(model)
    with torch.no_grad():
        for _ in range(2):
            assert "fmha" in kernels(lambda: fast(x, x))
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                assert distance(fast(x, x), model(x, x)) < 1e-5
                assert "fmha" not in kernels(lambda: fast(x, x))


@pytest.mark.parametrize("length", [64, 50])
@pytest.mark.parametrize("causal", [False, True])
def test_the_memory_efficient_kernel_itself(length, causal):
    """Called without Python where nothing but query, key and value goes in."""
    torch.manual_seed(0)
    leaves = [torch.randn(2, length, 4, 32, device="cuda", requires_grad=True) for _ in range(3)]

    def attend(q, k, v):
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal), q.sin()

    def run(function):
        out, other = function(*leaves)
        return out, other, *torch.autograd.grad(out.square().sum() + other.sum(), leaves)

    fast = cdynamo.optimize(attend, fullgraph=True)
    for _ in range(3):
        for i, (got, want) in enumerate(zip(run(fast), run(attend), strict=True)):
            # A gradient of what is not row-major may have other strides (docs/training.md).
            assert i >= 2 or got.stride() == want.stride()
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(fast(*leaves), attend(*leaves))
        shorter = [t[:, :40] for t in leaves]
        torch.testing.assert_close(fast(*shorter), attend(*shorter))


# Each alone, as which one eager prefers depends on the device (cuDNN's for halves on an H100).
KERNELS = {
    "flash": (SDPBackend.FLASH_ATTENTION, torch.bfloat16, False, 0.0, True),
    "memory-efficient": (SDPBackend.EFFICIENT_ATTENTION, torch.float32, False, 0.0, True),
    "a mask": (SDPBackend.EFFICIENT_ATTENTION, torch.bfloat16, True, 0.0, True),
    "random numbers": (SDPBackend.FLASH_ATTENTION, torch.bfloat16, False, 0.5, False),
    "cuDNN's": (SDPBackend.CUDNN_ATTENTION, torch.bfloat16, False, 0.0, False),
    "cuDNN's, a mask": (SDPBackend.CUDNN_ATTENTION, torch.bfloat16, True, 0.0, False),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_the_kernel_that_eager_chose_is_called_without_python(name, causal, monkeypatch):
    backend, dtype, masked, dropout, native = KERNELS[name]
    if masked and causal:
        pytest.skip("PyTorch has no attention with both")
    from cdynamo._library.attention import Attention

    in_python = []
    run = Attention.run
    monkeypatch.setattr(Attention, "run", lambda self, *args: (in_python.append(self), run(self, *args))[1])
    torch.manual_seed(0)
    leaves = [torch.randn(2, 64, 4, 32, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]
    mask = torch.randn(64, 64, device="cuda", dtype=dtype) if masked else None

    def attend(q, k, v, mask):
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal).transpose(1, 2)

    def run_seeded(function):
        torch.manual_seed(1)
        out = function(*leaves, mask)
        return out, *torch.autograd.grad(out.float().square().sum(), leaves)

    fast = cdynamo.optimize(attend, fullgraph=True)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    with sdpa_kernel(backend):
        for _ in range(3):
            for got, want in zip(run_seeded(fast), run_seeded(attend), strict=True):
                assert got.dtype == want.dtype
                assert distance(got, want) < tolerance
        assert bool(in_python) != native
        with torch.no_grad():
            assert distance(fast(*leaves, None), attend(*leaves, None)) < tolerance or dropout


def test_another_choice_of_eager_s_is_seen():
    """What no guard looks at is asked where a kernel is called."""
    torch.manual_seed(0)
    x = torch.randn(2, 4, 64, 32, device="cuda", dtype=torch.bfloat16)
    fast = cdynamo.optimize(lambda q: F.scaled_dot_product_attention(q, q, q))
    with torch.no_grad():
        assert "flash" in kernels(lambda: fast(x))
        order = torch._C._get_sdp_priority_order()
        try:
            torch._C._set_sdp_priority_order([2, 1, 0, 3][: len(order)] + list(order[4:]))
            fast(x)  # is called in plain Python
            assert "fmha" in kernels(lambda: fast(x))
        finally:
            torch._C._set_sdp_priority_order(order)
