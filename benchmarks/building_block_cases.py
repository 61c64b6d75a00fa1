"""The blocks that `building_blocks.py` times: name -> what makes a function or module and its arguments."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

CASES: dict[str, Callable[[], tuple]] = {}


def rand(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes)


def case(name: str, function: Callable, *sizes: tuple) -> None:
    """A function of tensors: each argument a shape, or what makes the argument."""
    CASES[name] = lambda: (function, tuple(rand(*s) if isinstance(s, tuple) else s() for s in sizes))


def module(name: str, make: Callable[[], nn.Module], *sizes: tuple) -> None:
    CASES[name] = lambda: (make(), tuple(rand(*s) if isinstance(s, tuple) else s() for s in sizes))


def index(high: int, *sizes: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randint(0, high, sizes)


# Normalizations and softmax.
for rows, columns in ((32, 768), (512, 768), (2048, 1024), (4096, 128), (64, 8192)):
    module(f"layer_norm {rows}x{columns}", lambda c=columns: nn.LayerNorm(c), (rows, columns))


class RMSNorm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


module("rms_norm by hand 512x768", lambda: RMSNorm(768), (512, 768))
module("rms_norm 512x1024", lambda: nn.RMSNorm(1024), (512, 1024))
module("batch_norm2d relu", lambda: nn.Sequential(nn.BatchNorm2d(64), nn.ReLU()), (8, 64, 28, 28))
module("batch_norm1d", lambda: nn.BatchNorm1d(256), (128, 256))
module("group_norm", lambda: nn.GroupNorm(8, 64), (4, 64, 28, 28))
module("instance_norm", lambda: nn.InstanceNorm2d(32, affine=True), (4, 32, 28, 28))
for rows, columns in ((1024, 64), (512, 1024), (16, 32768)):
    case(f"softmax {rows}x{columns}", lambda x: F.softmax(x, -1), (rows, columns))
case("softmax dim 1 of 8x64x784", lambda x: F.softmax(x, 1), (8, 64, 784))
case("log_softmax 512x1024", lambda x: F.log_softmax(x, -1), (512, 1024))
case("cross_entropy vocabulary 50k", F.cross_entropy, (64, 50257), index(50257, 64))
case("cross_entropy 1024x10", F.cross_entropy, (1024, 10), index(10, 1024))
case("mse_loss", F.mse_loss, (512, 512), (512, 512))
case(
    "bce_with_logits", lambda x, y: F.binary_cross_entropy_with_logits(x, y.detach().sigmoid()), (256, 512), (256, 512)
)

# Activations and chains of pointwise operators.
case("gelu", F.gelu, (512, 3072))
case("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), (512, 3072))
case("silu mul", lambda x, y: F.silu(x) * y, (512, 2048), (512, 2048))
case("where clamp", lambda x, y: torch.where(x > 0, x.clamp(-1, 1) * y, y.clamp(min=0) - x), (512, 1024), (512, 1024))
case(
    "sigmoid tanh gates",
    lambda x, y: torch.sigmoid(x) * torch.tanh(y) + (1 - torch.sigmoid(x)) * y,
    (256, 1024),
    (256, 1024),
)
case("broadcast bias scale", lambda x, w, b: (x * w + b).relu(), (64, 128, 256), (256,), (256,))
case("broadcast rows columns", lambda a, b: (a[:, None] - b[None, :]).abs().exp().neg(), (1024,), (1024,))
case("pairwise distances", lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1).sqrt(), (256, 32), (256, 32))
case("int operators", lambda a, b: ((a * 3 + b) % 17 // 2 ^ b) & 1023, index(1000, 512, 1024), index(1000, 512, 1024))
case("compare count", lambda a, b: (a == b).sum(), index(10, 512, 1024), index(10, 512, 1024))
case("tiny chain", lambda x, y: torch.tanh(x * y + 1).mean(), (8, 16), (8, 16))

# Reductions and scans.
case("sum dim 0", lambda x: x.sum(0), (2048, 512))
case("sum dim 1", lambda x: x.sum(1), (2048, 512))
case("sum all", lambda x: x.sum(), (2048, 512))
case("mean dims 0 2 3", lambda x: x.mean((0, 2, 3)), (8, 64, 28, 28))
case("var dim 0", lambda x: x.var(0), (2048, 512))
case("var dim 1", lambda x: x.var(1), (2048, 512))
case("std all", lambda x: x.std(), (1024, 1024))
case("norm dim 1 normalize", lambda x: F.normalize(x, dim=1), (1024, 256))
case("max dim 0", lambda x: x.max(0).values, (2048, 512))
case("amax dim 1", lambda x: x.amax(1), (2048, 512))
case("argmax dim 1", lambda x: x.argmax(1), (2048, 512))
case("logsumexp dim 0", lambda x: x.logsumexp(0), (1024, 512))
case("cumsum dim 0", lambda x: x.cumsum(0), (512, 1024))
case("cumsum dim 1", lambda x: x.cumsum(1), (512, 1024))
case("cumprod", lambda x: torch.sigmoid(x).cumprod(1), (512, 64))
case("sort", lambda x: x.sort(-1).values, (256, 512))
case("topk softmax", lambda x: F.softmax(x.topk(8, -1).values, -1), (256, 512))

# Indexing, joining and splitting.
module("embedding", lambda: nn.Embedding(10000, 256), index(10000, 16, 128))
module("embedding mean", lambda: nn.Sequential(nn.Embedding(1000, 64)), index(1000, 64, 32))
case("gather", lambda x, i: x.gather(1, i), (512, 1024), index(1024, 512, 256))
case("scatter_add", lambda x, i, s: x.scatter_add(1, i, s), (512, 1024), index(1024, 512, 256), (512, 256))
case("index_add", lambda x, i, s: x.index_add(0, i, s), (1024, 128), index(1024, 4096), (4096, 128))
case("index_select rows", lambda x, i: x[i], (4096, 128), index(4096, 2048))
case("index pairs", lambda x, i, j: x[i, j] * 2, (512, 512), index(512, 4096), index(512, 4096))
case("masked_fill", lambda x, m: x.masked_fill(m > 0, -1e9), (512, 1024), index(2, 512, 1024))
case("cat dim 1", lambda a, b, c: torch.cat([a, b * 2, c], 1), (256, 512), (256, 512), (256, 256))
case("cat dim 0", lambda a, b, c: torch.cat([a, b, c], 0).relu(), (512, 512), (256, 512), (128, 512))
case("split swap", lambda x: torch.cat([-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1) * 0.5 + x, (64, 128, 128))
case("stack", lambda a, b, c: torch.stack([a, b, c], -1).sum(-1), (256, 512), (256, 512), (256, 512))
case("split five", lambda x: tuple(p.tanh() for p in x.split(100, 1)), (256, 500))
case("transpose add", lambda x: (x.t() + x).contiguous(), (1024, 1024))
case("permute contiguous", lambda x: x.permute(0, 2, 3, 1).contiguous(), (8, 64, 28, 28))
case("roll flip", lambda x: x.roll(3, 1) + x.flip(0), (512, 1024))
case("pad slice", lambda x: F.pad(x, (1, 1, 1, 1))[:, :, 2:, 2:] * 2, (4, 32, 56, 56))
case("tril masked", lambda x: x.tril() * 0.5, (1024, 1024))
case("repeat_interleave", lambda x: x.repeat_interleave(4, dim=1), (2, 8, 128, 64))


def rotary(x: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)


case("rotary", rotary, (2, 8, 256, 64), (256, 32), (256, 32))

# Products.
for batch in (1, 8, 64, 256):
    module(
        f"linear relu linear batch {batch}",
        lambda: nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)),
        (batch, 256),
    )
case("bmm", torch.bmm, (16, 128, 64), (16, 64, 128))
case("matmul batch 4d", torch.matmul, (2, 8, 128, 64), (2, 8, 64, 128))
case("einsum", lambda a, b: torch.einsum("bik,bjk->bij", a, b), (8, 128, 64), (8, 128, 64))
case("addmv", lambda a, m, v: a + m @ v, (1024,), (1024, 512), (512,))
case("outer", torch.outer, (1024,), (1024,))


class SwiGLU(nn.Module):
    def __init__(self, size: int = 256, hidden: int = 512) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(size, hidden, bias=False), nn.Linear(size, hidden, bias=False)
        self.down = nn.Linear(hidden, size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


module("swiglu mlp", SwiGLU, (4, 64, 256))


class Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(256, 512), nn.Linear(512, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.b(F.gelu(self.a(x))).float()


module("autocast mlp", Autocast, (128, 256))
module(
    "bfloat16 linear gelu",
    lambda: nn.Sequential(nn.Linear(256, 512), nn.GELU()).bfloat16(),
    lambda: torch.randn(128, 256).bfloat16(),
)
case(
    "bfloat16 pointwise",
    lambda x, y: torch.sigmoid(x) * y + 1,
    lambda: rand(512, 1024).bfloat16(),
    lambda: rand(512, 1024).bfloat16(),
)

# Images.
module("max_pool", lambda: nn.MaxPool2d(2), (8, 32, 56, 56))
module("max_pool 3 stride 2", lambda: nn.MaxPool2d(3, 2, 1), (8, 32, 56, 56))
module("avg_pool", lambda: nn.AvgPool2d(2), (8, 32, 56, 56))
module("adaptive_avg_pool 1", lambda: nn.AdaptiveAvgPool2d(1), (8, 128, 14, 14))
module("adaptive_avg_pool 7", lambda: nn.AdaptiveAvgPool2d(7), (8, 64, 28, 28))
module(
    "depthwise conv relu", lambda: nn.Sequential(nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.ReLU()), (4, 64, 28, 28)
)
module("pointwise conv", lambda: nn.Sequential(nn.Conv2d(64, 128, 1), nn.ReLU6()), (4, 64, 28, 28))
module("conv1d relu", lambda: nn.Sequential(nn.Conv1d(32, 64, 5, padding=2), nn.ReLU()), (8, 32, 256))
module("conv_transpose", lambda: nn.ConvTranspose2d(32, 16, 4, 2, 1), (4, 32, 28, 28))
case("interpolate nearest", lambda x: F.interpolate(x, scale_factor=2), (4, 32, 28, 28))
case("interpolate bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (4, 32, 28, 28))
case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), (4, 64, 28, 28))


class ConvBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(32, 64, 3, 2, 1, bias=False), nn.BatchNorm2d(64)
        self.conv2, self.bn2 = nn.Conv2d(64, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        self.down = nn.Sequential(nn.Conv2d(32, 64, 1, 2, bias=False), nn.BatchNorm2d(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.down(x))


module("resnet block", ConvBlock, (4, 32, 28, 28))


class SqueezeExcite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(64, 16, 1), nn.Conv2d(16, 64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.b(F.relu(self.a(x.mean((2, 3), keepdim=True)))))


module("squeeze excite", SqueezeExcite, (8, 64, 28, 28))

# Attention, transformers, recurrences.
case(
    "attention causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *[(2, 8, 128, 64)] * 3
)


def masked_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    scores = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).masked_fill(~mask, float("-inf"))
    return F.softmax(scores, -1) @ v


case("attention by hand, mask", masked_attention, *[(2, 8, 128, 64)] * 3)
case("cross attention", F.scaled_dot_product_attention, (2, 8, 64, 64), (2, 8, 200, 64), (2, 8, 200, 64))


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(256, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x, x, x, need_weights=False)[0]


module("nn.MultiheadAttention", SelfAttention, (2, 128, 256))


class LlamaBlock(nn.Module):
    def __init__(self, size: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, RMSNorm(size), RMSNorm(size)
        self.qkv, self.out, self.mlp = (
            nn.Linear(size, 3 * size, bias=False),
            nn.Linear(size, size, bias=False),
            SwiGLU(size, 2 * size),
        )
        angles = torch.arange(128)[:, None] / 10000 ** (torch.arange(size // heads // 2) / (size // heads // 2))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = (
            p.view(b, t, self.heads, d // self.heads).transpose(1, 2) for p in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        a = F.scaled_dot_product_attention(
            rotary(q, self.cos, self.sin), rotary(k, self.cos, self.sin), v, is_causal=True
        )
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


module("llama block", LlamaBlock, (2, 128, 256))


class VitBlock(nn.Module):
    def __init__(self, size: int = 192) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, size, 16, 16)
        self.block = nn.TransformerEncoderLayer(size, 3, 4 * size, 0.0, "gelu", batch_first=True, norm_first=True)
        self.head = nn.Linear(size, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.patch(x).flatten(2).transpose(1, 2)).mean(1))


module("vit block", VitBlock, (2, 3, 128, 128))


class Recurrent(nn.Module):
    def __init__(self, kind: type) -> None:
        super().__init__()
        self.inner = kind(64, 64, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)[0]


module("lstm", lambda: Recurrent(nn.LSTM), (16, 20, 64))
module("gru", lambda: Recurrent(nn.GRU), (16, 20, 64))
module("lstm_cell", lambda: nn.LSTMCell(64, 128), (32, 64))
module("dropout", lambda: nn.Sequential(nn.ReLU(), nn.Dropout(0.1)), (512, 1024))


# Updates of parameters.
def adam(params: list, grads: list, firsts: list, seconds: list) -> tuple:
    results = []
    for p, g, m, v in zip(params, grads, firsts, seconds, strict=True):
        m, v = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
        results.append((p - 1e-3 * m / (v.sqrt() + 1e-8), m, v))
    return tuple(results)


SIZES = ((256, 256), (256,), (512, 256), (512,), (256, 512), (256,), (64, 64), (64,))
CASES["adam of 8 tensors"] = lambda: (adam, tuple([rand(*s).abs() for s in SIZES] for _ in range(4)))
