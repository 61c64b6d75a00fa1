"""A diffusion model: a UNet with time embeddings and attention, schedulers, a loop that removes noise, training steps."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def timestep_embedding(steps, width, max_period=10_000):
    half = width // 2
    frequencies = torch.exp(-math.log(max_period) * torch.arange(half, dtype=torch.float32) / half)
    angles = steps[:, None].float() * frequencies[None]
    embedding = torch.cat([angles.cos(), angles.sin()], dim=-1)
    if width % 2 == 1:
        embedding = F.pad(embedding, (0, 1))
    return embedding


class ResidualBlock(nn.Module):
    def __init__(self, fan_in, fan_out, time_width):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, fan_in), nn.Conv2d(fan_in, fan_out, 3, padding=1)
        self.time = nn.Linear(time_width, 2 * fan_out)
        self.norm2, self.conv2 = nn.GroupNorm(4, fan_out), nn.Conv2d(fan_out, fan_out, 3, padding=1)
        self.shortcut = nn.Conv2d(fan_in, fan_out, 1) if fan_in != fan_out else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, dim=1)
        h = self.conv2(F.silu(self.norm2(h) * (1 + scale) + shift))
        return self.shortcut(x) + h


class AttentionBlock(nn.Module):
    def __init__(self, width, heads=2):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = (
            nn.GroupNorm(4, width),
            nn.Conv1d(width, 3 * width, 1),
            nn.Conv1d(width, width, 1),
        )

    def forward(self, x):
        batch, width, *spatial = x.shape
        flat = x.reshape(batch, width, -1)
        q, k, v = self.qkv(self.norm(flat)).reshape(batch * self.heads, -1, flat.shape[-1]).chunk(3, dim=1)
        scale = 1 / math.sqrt(math.sqrt(width // self.heads))
        weights = torch.einsum("bct,bcs->bts", q * scale, k * scale).softmax(dim=-1)
        flat = flat + self.out(torch.einsum("bts,bcs->bct", weights, v).reshape(batch, -1, flat.shape[-1]))
        return flat.reshape(batch, width, *spatial)


class Stage(nn.Sequential):
    """Passes the time to the layers that take it."""

    def forward(self, x, time):
        for layer in self:
            x = layer(x, time) if isinstance(layer, ResidualBlock) else layer(x)
        return x


@dataclasses.dataclass
class Prediction:
    sample: torch.Tensor


class UNet(nn.Module):
    def __init__(self, width=8, factors=(1, 2), time_width=16):
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time_width), nn.SiLU(), nn.Linear(time_width, time_width))
        self.down, self.up = nn.ModuleList([Stage(nn.Conv2d(3, width, 3, padding=1))]), nn.ModuleList()
        widths, now = [width], width
        for level, factor in enumerate(factors):
            layers = [ResidualBlock(now, factor * width, time_width)]
            now = factor * width
            if level == len(factors) - 1:
                layers.append(AttentionBlock(now))
            self.down.append(Stage(*layers))
            widths.append(now)
            if level < len(factors) - 1:
                self.down.append(Stage(nn.Conv2d(now, now, 3, stride=2, padding=1)))
                widths.append(now)
        self.middle = Stage(
            ResidualBlock(now, now, time_width), AttentionBlock(now), ResidualBlock(now, now, time_width)
        )
        for level, factor in reversed(list(enumerate(factors))):
            for i in range(2):
                if not widths:
                    break
                layers = [ResidualBlock(now + widths.pop(), factor * width, time_width)]
                now = factor * width
                if level and i == 1:
                    layers += [nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(now, now, 3, padding=1)]
                self.up.append(Stage(*layers))
        self.out = nn.Sequential(nn.GroupNorm(4, now), nn.SiLU(), nn.Conv2d(now, 3, 3, padding=1))

    def forward(self, sample, timestep, return_dict=True):
        if not torch.is_tensor(timestep):
            timestep = torch.tensor([timestep], dtype=torch.long)
        elif timestep.dim() == 0:
            timestep = timestep[None]
        time = self.time(timestep_embedding(timestep.expand(sample.shape[0]), self.width))
        skips, h = [], sample
        for stage in self.down:
            h = stage(h, time)
            skips.append(h)
        h = self.middle(h, time)
        for stage in self.up:
            skip = skips.pop()
            if h.shape[-2:] != skip.shape[-2:]:
                h = F.interpolate(h, size=skip.shape[-2:], mode="nearest")
            h = stage(torch.cat([h, skip], dim=1), time)
        h = self.out(h)
        return Prediction(sample=h) if return_dict else (h,)


class Scheduler:
    """Adds noise, and takes it away in fewer steps: with DDPM's random step or DDIM's."""

    def __init__(self, count=50):
        self.betas = torch.from_numpy(np.linspace(1e-4, 0.02, count, dtype=np.float32))
        self.kept = torch.cumprod(1.0 - self.betas, dim=0)
        self.count = count

    def set_timesteps(self, steps):
        self.stride = self.count // steps
        self.timesteps = torch.from_numpy((np.arange(0, steps) * self.stride).round()[::-1].copy().astype(np.int64))

    def add_noise(self, x, noise, steps):
        kept = self.kept[steps].view(-1, 1, 1, 1)
        return kept.sqrt() * x + (1 - kept).sqrt() * noise

    def step(self, noise, t, x, random):
        before = t - self.stride
        kept = self.kept[t]
        kept_before = self.kept[before] if before >= 0 else torch.tensor(1.0)
        start = ((x - (1 - kept) ** 0.5 * noise) / kept**0.5).clamp(-1, 1)
        if not random:
            return kept_before**0.5 * start + (1 - kept_before) ** 0.5 * noise
        rate = 1 - kept / kept_before
        x = kept_before**0.5 * rate / (1 - kept) * start + (1 - rate) ** 0.5 * (1 - kept_before) / (1 - kept) * x
        if t > 0:
            variance = ((1 - kept_before) / (1 - kept) * rate).clamp(min=1e-20)
            x = x + variance**0.5 * torch.randn_like(x)
        return x


def make():
    torch.manual_seed(0)
    return UNet(), Scheduler()


def sampled(optimize, random, whole):
    """The loop over the steps: in Python around a compiled model, or compiled with it."""
    model, scheduler = make()
    model.eval()
    scheduler.set_timesteps(5)

    def run(x, model):
        for t in scheduler.timesteps:
            noise = model(x, t).sample
            x = scheduler.step(noise, t, x, random)
        return (x / 2 + 0.5).clamp(0, 1)

    torch.manual_seed(4)
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        image = optimize(run)(x, model) if whole else run(x, optimize(model))
    return image, (image.permute(0, 2, 3, 1).numpy() * 255).round().astype("uint8")


def deterministic_steps(optimize):
    return sampled(optimize, False, False)


def random_steps(optimize):
    return sampled(optimize, True, False)


def the_loop_compiled_with_the_model(optimize):
    return sampled(optimize, False, True)


def the_random_loop_compiled_with_the_model(optimize):
    return sampled(optimize, True, True)


def guidance(optimize):
    """Two predictions in one batch."""
    model, scheduler = make()
    model.eval()
    scheduler.set_timesteps(5)

    @optimize
    def guided(x, t, scale):
        plain, told = model(torch.cat([x] * 2), t, return_dict=False)[0].chunk(2)
        noise = plain + scale * (told - plain)
        return scheduler.step(noise, t, x, False)

    torch.manual_seed(4)
    x = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        for i, t in enumerate(scheduler.timesteps.tolist()):
            x = guided(x, t, 1.0 + i / 2)
    return x


def training(optimize):
    model, scheduler = make()
    compiled = optimize(model)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(4):
        x, noise = torch.rand(4, 3, 8, 8), torch.randn(4, 3, 8, 8)
        steps = torch.randint(0, scheduler.count, (4,))
        loss = F.mse_loss(compiled(scheduler.add_noise(x, noise, steps), steps).sample, noise)
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        losses.append(loss.item())
    return losses, model.state_dict()


# `if t > 0`, of which one way draws random numbers: a break.
BRANCHES_ON_DATA = {the_random_loop_compiled_with_the_model: 1}

PROGRAMS = [
    deterministic_steps,
    random_steps,
    the_loop_compiled_with_the_model,
    the_random_loop_compiled_with_the_model,
    guidance,
    training,
]
