"""Networks of convolutions on a CUDA device: equal to eager in numbers, gradients and strides. Skipped where there is no device."""

from __future__ import annotations

import contextlib
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


class Block(nn.Module):
    """A residual block; `groups` for the kernel in the middle. Smooth unless told: where a number is nearly 0, the gradient of relu
    depends on how it was rounded."""

    def __init__(self, inner, outer, stride=1, groups=1, size=3, activation=F.silu):
        super().__init__()
        self.activation = activation
        self.layers = nn.Sequential(
            nn.Conv2d(inner, outer, 1, bias=False),
            nn.BatchNorm2d(outer),
            nn.SiLU(),
            nn.Conv2d(outer, outer, size, stride, size // 2, groups=groups),
            nn.BatchNorm2d(outer),
        )
        self.shortcut = nn.Conv2d(inner, outer, 1, stride)

    def forward(self, x):
        return self.activation(self.layers(x) + self.shortcut(x))


class Network(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 7, 2, 3)
        self.blocks = nn.Sequential(Block(32, 64, **options), Block(64, 64, 2, **options))
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = F.avg_pool2d(F.silu(self.stem(x)), 3, 2, 1)
        return self.head(self.blocks(x).mean((2, 3)))


class Pooled(nn.Module):
    """Which of two numbers is the larger may depend on how they were rounded: compared with a wide tolerance."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(16, 32, 3, padding=1)

    def forward(self, x):
        return F.max_pool2d(torch.relu(self.conv(x)), 3, 2, 1) + F.max_pool2d(x, 3, 2, 1).repeat(1, 2, 1, 1)


class UNet(nn.Module):
    """Downwards, upwards, and side by side."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(16, 32, 3, 2, 1)
        self.norm = nn.GroupNorm(4, 32)
        self.up = nn.ConvTranspose2d(32, 16, 4, 2, 1)
        self.last = nn.Conv2d(32, 16, 3, padding=1)

    def forward(self, x):
        low = F.silu(self.norm(self.down(x)))
        high = torch.cat([x, self.up(low)], 1)
        return self.last(high), F.interpolate(low, scale_factor=2.0)


MODELS = {
    "network": (Network, (4, 3, 64, 64)),
    "depthwise": (lambda: Network(groups=64), (4, 3, 64, 64)),
    "large depthwise": (lambda: Network(groups=64, size=7), (4, 3, 64, 64)),
    "groups": (lambda: Network(groups=4), (4, 3, 64, 64)),
    "block": (lambda: Block(16, 32), (2, 16, 14, 14)),
    "odd sizes": (lambda: Block(17, 35), (3, 17, 7, 9)),
    "unet": (UNet, (2, 16, 16, 16)),
    "pooled": (Pooled, (2, 16, 14, 14)),
}


def tensors_of(result):
    return list(result) if isinstance(result, tuple) else [result]


def error(got, want):
    return ((got - want).double().norm() / (want.double().norm() + 1e-12)).item()


@contextlib.contextmanager
def tf32(allowed):
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
@pytest.mark.parametrize("precision", ["tf32", "f32", "bf16"])
@pytest.mark.parametrize("name", MODELS)
def test_equal_to_eager(name, precision, training):
    make, sizes = MODELS[name]
    torch.manual_seed(0)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = make().to(DEVICE, dtype).train(training)
    exact, compiled_model = copy.deepcopy(model).double(), copy.deepcopy(model)
    compiled = cdynamo.optimize(compiled_model)
    x = torch.randn(sizes, device=DEVICE, dtype=dtype)

    def run(function, owner, x):
        x = x.clone().requires_grad_(training)
        results = tensors_of(function(x))
        if not training:
            return [(result.detach(), result.stride()) for result in results]
        seeds = torch.Generator(DEVICE).manual_seed(1)
        seed = [torch.randn(r.shape, generator=seeds, device=DEVICE).to(r.dtype) for r in results]
        gradients = torch.autograd.grad(results, [x, *owner.parameters()], seed)
        return [(tensor.detach(), tensor.stride()) for tensor in (*results, *gradients)]

    with tf32(precision == "tf32"), torch.set_grad_enabled(training):
        want, got = run(model, model, x), run(compiled, compiled_model, x)
    with torch.set_grad_enabled(training):
        true = run(exact, exact, x.double())
    largest = max(tensor.norm().item() for tensor, _ in true)
    for (a, strides), (b, eager_strides), (c, _) in zip(got, want, true, strict=True):
        assert strides == eager_strides
        # As near to the true numbers as eager is; what is nearly 0, as a bias's gradient before a norm, counts by the largest.
        small = 1e-3 * largest / (c.norm().item() + 1e-12)
        allowed = {"tf32": 2e-3, "f32": 2e-5, "bf16": 2e-2}[precision] * max(1.0, small)
        allowed = max(allowed, 0.1) if name == "pooled" and training else allowed
        assert error(a, c) < 2 * error(b, c) + allowed


@pytest.mark.parametrize("channels_last", [False, True])
def test_strides_are_eager_s(channels_last):
    model = Block(16, 32).to(DEVICE).eval()
    x = torch.randn(2, 16, 8, 8, device=DEVICE)
    if channels_last:
        x = x.to(memory_format=torch.channels_last)
    with torch.no_grad():
        got, want = cdynamo.optimize(model)(x), model(x)
    assert got.stride() == want.stride()
    torch.testing.assert_close(got, want, rtol=1e-2, atol=1e-2)


def test_sizes_that_change():
    model = Block(16, 32).to(DEVICE).eval()
    compiled = cdynamo.optimize(model, dynamic=True)
    with torch.no_grad():
        for batch, size in ((2, 8), (3, 9), (5, 12), (1, 7)):
            x = torch.randn(batch, 16, size, size, device=DEVICE)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-2, atol=1e-2)


def test_memory_is_no_more_than_eager_s():
    model = Block(64, 64).to(DEVICE).eval()
    x = torch.randn(32, 64, 56, 56, device=DEVICE)

    def peak(run):
        with torch.no_grad():
            run(x)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            run(x)
        return torch.cuda.max_memory_allocated() - before

    assert peak(cdynamo.optimize(model)) <= peak(model) * 1.05
