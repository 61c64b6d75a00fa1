"""The programs of the tour: as their authors would write them, unaware of any compiler."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

Program = tuple[str, Callable, tuple]


# ---- NumPy ---------------------------------------------------------------------------------------------------------


def sin2cos2(x: np.ndarray) -> np.ndarray:
    return np.sin(x) ** 2 + np.cos(x) ** 2


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def normal_cdf(x: np.ndarray) -> np.ndarray:
    """Abramowitz and Stegun, 26.2.17."""
    k = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    series = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    upper = 1.0 - np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) * series
    return np.where(x >= 0, upper, 1.0 - upper)


def black_scholes(spot: np.ndarray, strike: np.ndarray, years: np.ndarray, rate: float, volatility: float):
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / (volatility * np.sqrt(years))
    d2 = d1 - volatility * np.sqrt(years)
    discounted = strike * np.exp(-rate * years)
    call = spot * normal_cdf(d1) - discounted * normal_cdf(d2)
    put = call - spot + discounted
    return call, put


def heat_step(u: np.ndarray, alpha: float) -> np.ndarray:
    new = u.copy()
    new[1:-1, 1:-1] = u[1:-1, 1:-1] + alpha * (
        u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    )
    return new


def numpy_programs() -> Iterator[Program]:
    rng = np.random.default_rng(0)
    yield "sin2+cos2", sin2cos2, (rng.random(1_000_000),)
    yield "softmax", softmax, (rng.standard_normal((512, 1024)),)
    n = 200_000
    prices = (rng.uniform(10, 100, n), rng.uniform(10, 100, n), rng.uniform(0.1, 2, n))
    yield "black-scholes", black_scholes, (*prices, 0.02, 0.3)
    yield "heat stencil", heat_step, (rng.random((512, 512)), 0.1)


# ---- PyTorch -------------------------------------------------------------------------------------------------------


def torch_programs() -> Iterator[Program]:
    """Models in eval mode, to be run without gradients."""
    try:
        import torch
    except ImportError:
        return
    from models import GPT, MLP, MultiHeadAttention, ResNetBlock, resnet18

    torch.manual_seed(0)
    yield "sin2+cos2", lambda x: torch.sin(x) ** 2 + torch.cos(x) ** 2, (torch.rand(1_000_000),)
    yield "x * y + 1, 4 elements", lambda x, y: x * y + 1.0, (torch.randn(4), torch.randn(4))
    yield "MLP", MLP().eval(), (torch.randn(64, 512),)
    yield "softmax", lambda x: torch.softmax(x, dim=-1), (torch.randn(512, 1024),)
    norm_gelu = torch.nn.Sequential(torch.nn.LayerNorm(1024), torch.nn.GELU()).eval()
    yield "LayerNorm + GELU", norm_gelu, (torch.randn(512, 1024),)
    x = torch.randn(2, 128, 256)
    mask = torch.ones(128, 128).tril()
    yield "attention with a mask", MultiHeadAttention(256, 8).eval(), (x, x, x, mask)
    yield "ResNet block", ResNetBlock(64, 64).eval(), (torch.randn(2, 64, 28, 28),)
    yield "ResNet-18", resnet18().eval(), (torch.randn(1, 3, 64, 64),)
    yield "GPT, 4 layers", GPT(layers=4).eval(), (torch.randint(0, 1000, (1, 64)),)
    yield "a break in the middle", with_item, (torch.randn(256, 256),)


def with_item(x):
    y = x.exp()
    if y.mean() > 1:  # only the data tell
        y = y - 1
    return y.abs().sqrt() * 2
