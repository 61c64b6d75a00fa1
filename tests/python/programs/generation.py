"""Text generation as libraries of language models write it: caches that grow or are full from the start, processors of
logits, stopping criteria, greedy search, sampling and beam search."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass
class Config:
    vocabulary: int = 50
    width: int = 32
    heads: int = 4
    layers: int = 2
    positions: int = 32
    end: int = 1


class Output(OrderedDict):
    """Fields by name and by attribute."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error


class DynamicCache:
    def __init__(self):
        self.keys, self.values = [], []

    def length(self):
        return self.keys[0].shape[2] if self.keys else 0

    def update(self, k, v, layer):
        if len(self.keys) <= layer:
            self.keys.append(k)
            self.values.append(v)
        else:
            self.keys[layer] = torch.cat([self.keys[layer], k], dim=2)
            self.values[layer] = torch.cat([self.values[layer], v], dim=2)
        return self.keys[layer], self.values[layer]

    def reorder(self, rows):
        self.keys = [k.index_select(0, rows) for k in self.keys]
        self.values = [v.index_select(0, rows) for v in self.values]


class StaticCache:
    def __init__(self, config, batch):
        shape = (batch, config.heads, config.positions, config.width // config.heads)
        self.keys = [torch.zeros(shape) for _ in range(config.layers)]
        self.values = [torch.zeros(shape) for _ in range(config.layers)]
        self.seen = 0

    def length(self):
        return self.seen

    def update(self, k, v, layer):
        places = torch.arange(self.seen, self.seen + k.shape[2])
        self.keys[layer].index_copy_(2, places, k)
        self.values[layer].index_copy_(2, places, v)
        if layer == len(self.keys) - 1:
            self.seen += k.shape[2]
        return self.keys[layer], self.values[layer]

    def reorder(self, rows):
        for held in (self.keys, self.values):
            for i, tensor in enumerate(held):
                tensor.copy_(tensor.index_select(0, rows))
                held[i] = tensor


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Attention(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.config, self.layer = config, layer
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x, angles, mask, cache):
        batch, length, _ = x.shape
        split = (batch, length, self.config.heads, -1)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        cos, sin = angles
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        if cache is not None:
            k, v = cache.update(k, v, self.layer)
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[..., : k.shape[2]])
        return self.out(x.transpose(1, 2).reshape(batch, length, -1))


class Block(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.attention = Attention(config, layer)
        self.norms = nn.ModuleList(nn.LayerNorm(config.width) for _ in range(2))
        self.mlp = nn.Sequential(nn.Linear(config.width, 64), nn.SiLU(), nn.Linear(64, config.width))

    def forward(self, x, **kwargs):
        x = x + self.attention(self.norms[0](x), **kwargs)
        return x + self.mlp(self.norms[1](x))


class LanguageModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(Block(config, i) for i in range(config.layers))
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        half = config.width // config.heads // 2
        self.register_buffer("inverse", 1.0 / (100.0 ** (torch.arange(half) / half)), persistent=False)

    def forward(self, ids, cache=None, use_cache=True):
        if use_cache and cache is None:
            cache = DynamicCache()
        past = cache.length() if cache is not None else 0
        positions = torch.arange(past, past + ids.shape[1])
        angles = positions[:, None] * self.inverse
        angles = torch.cat((angles, angles), dim=-1)
        angles = angles.cos(), angles.sin()
        mask = torch.arange(self.config.positions)[None, :] <= positions[:, None]
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, angles=angles, mask=mask, cache=cache)
        return Output(logits=self.head(x), cache=cache)


class RepetitionPenalty:
    def __init__(self, penalty):
        self.penalty = penalty

    def __call__(self, ids, scores):
        score = torch.gather(scores, 1, ids)
        score = torch.where(score < 0, score * self.penalty, score / self.penalty)
        return scores.scatter(1, ids, score)


class Temperature:
    def __init__(self, temperature):
        self.temperature = temperature

    def __call__(self, ids, scores):
        return scores / self.temperature


class TopK:
    def __init__(self, k):
        self.k = k

    def __call__(self, ids, scores):
        k = min(self.k, scores.shape[-1])
        return scores.masked_fill(scores < torch.topk(scores, k)[0][..., -1, None], -float("inf"))


class TopP:
    def __init__(self, p):
        self.p = p

    def __call__(self, ids, scores):
        ordered, places = torch.sort(scores, descending=False)
        remove = ordered.softmax(dim=-1).cumsum(dim=-1) <= 1 - self.p
        remove[..., -1:] = False
        return scores.masked_fill(remove.scatter(1, places, remove), -float("inf"))


class Processors(list):
    def __call__(self, ids, scores):
        for processor in self:
            scores = processor(ids, scores)
        return scores


def model_and_ids(optimize):
    torch.manual_seed(0)
    config = Config()
    model = LanguageModel(config).eval()
    return optimize(model), config, torch.randint(2, config.vocabulary, (2, 5))


def decode(model, config, ids, cache, processors, sample, steps=8):
    unfinished = torch.ones(ids.shape[0], dtype=torch.long)
    fed = ids
    for _ in range(steps):
        out = model(fed, cache=cache)
        cache = out.cache
        scores = processors(ids, out.logits[:, -1, :])
        if sample:
            chosen = torch.multinomial(scores.softmax(dim=-1), num_samples=1).squeeze(1)
        else:
            chosen = scores.argmax(dim=-1)
        chosen = chosen * unfinished + config.end * (1 - unfinished)
        ids = torch.cat([ids, chosen[:, None]], dim=-1)
        unfinished = unfinished * (chosen != config.end)
        fed = chosen[:, None]
        if unfinished.max() == 0:
            break
    return ids


@torch.no_grad()
def greedy_with_a_cache_that_grows(optimize):
    model, config, ids = model_and_ids(optimize)
    return decode(model, config, ids, None, Processors([RepetitionPenalty(1.3)]), sample=False)


@torch.no_grad()
def greedy_with_a_static_cache(optimize):
    model, config, ids = model_and_ids(optimize)
    return decode(model, config, ids, StaticCache(config, len(ids)), Processors(), sample=False)


@torch.no_grad()
def sampling(optimize):
    model, config, ids = model_and_ids(optimize)
    processors = Processors([Temperature(0.8), TopK(20), TopP(0.9)])
    process = optimize(processors.__call__)
    torch.manual_seed(3)
    return decode(model, config, ids, None, process, sample=True)


@torch.no_grad()
def a_step_that_is_compiled_as_a_whole(optimize):
    """The loop is Python's; what it does in a turn is one function."""
    model, config, ids = model_and_ids(lambda model: model)
    cache = StaticCache(config, len(ids))

    @optimize
    def step(fed, ids):
        scores = Processors([RepetitionPenalty(1.1)])(ids, model(fed, cache=cache).logits[:, -1])
        return scores.argmax(dim=-1, keepdim=True)

    fed = ids
    for _ in range(8):
        fed = step(fed, ids)
        ids = torch.cat([ids, fed], dim=-1)
    return ids, cache.keys, cache.seen


def search(model, config, ids, beams, cache, steps=6):
    batch = ids.shape[0]
    ids = ids.repeat_interleave(beams, dim=0)
    scores = torch.zeros(batch, beams)
    scores[:, 1:] = -1e9
    finished = [[] for _ in range(batch)]
    fed = ids
    for _ in range(steps):
        out = model(fed, cache=cache)
        cache = out.cache
        logs = F.log_softmax(out.logits[:, -1], dim=-1).view(batch, beams, -1) + scores[..., None]
        best, places = torch.topk(logs.view(batch, -1), 2 * beams, dim=1)
        rows, tokens = places // config.vocabulary, places % config.vocabulary
        next_scores, next_rows, next_tokens = [], [], []
        for b in range(batch):
            kept = []
            for rank, (score, row, token) in enumerate(zip(best[b].tolist(), rows[b].tolist(), tokens[b].tolist())):
                if token == config.end:
                    if rank < beams:
                        finished[b].append((score, ids[b * beams + row].tolist()))
                    continue
                kept.append((score, b * beams + row, token))
                if len(kept) == beams:
                    break
            next_scores.append([score for score, _, _ in kept])
            next_rows.extend(row for _, row, _ in kept)
            next_tokens.extend(token for _, _, token in kept)
        scores = torch.tensor(next_scores)
        order = torch.tensor(next_rows)
        fed = torch.tensor(next_tokens)[:, None]
        ids = torch.cat([ids[order], fed], dim=-1)
        cache.reorder(order)
    for b in range(batch):
        for beam in range(beams):
            finished[b].append((scores[b, beam].item(), ids[b * beams + beam].tolist()))
    return [max(hypotheses, key=lambda h: h[0] / len(h[1]))[1] for hypotheses in finished]


@torch.no_grad()
def beam_search_with_a_cache_that_grows(optimize):
    model, config, ids = model_and_ids(optimize)
    return search(model, config, ids, 3, None)


@torch.no_grad()
def beam_search_with_a_static_cache(optimize):
    model, config, ids = model_and_ids(optimize)
    return search(model, config, ids, 3, StaticCache(config, 3 * len(ids)))


PROGRAMS = [
    greedy_with_a_cache_that_grows,
    greedy_with_a_static_cache,
    sampling,
    a_step_that_is_compiled_as_a_whole,
    beam_search_with_a_cache_that_grows,
    beam_search_with_a_static_cache,
]
