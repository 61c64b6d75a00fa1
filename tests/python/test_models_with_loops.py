"""Models whose forward has Python loops that are left to Python: layer drop, routed experts, scans, masks drawn by NumPy.

The shapes of library models (encoders and decoders with layer drop, mixtures of experts, state-space models, speech encoders),
in eval and in training, equal to eager in results, gradients and random numbers drawn.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import cdynamo

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.mlp = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))

    def forward(self, x, mask=None):
        y = self.mlp(self.norm(x))
        return (x + (y if mask is None else y * mask),)


class LayerDrop(nn.Module):
    """Bart, OPT, Whisper: a branch on a random number in the loop over layers, what was seen on the way is collected."""

    def __init__(self, size=16, layers=4, drop=0.4):
        super().__init__()
        self.layers = nn.ModuleList(Block(size) for _ in range(layers))
        self.embed, self.head = nn.Linear(size, size), nn.Linear(size, 3)
        self.drop = drop

    def forward(self, x, mask=None, output_hidden_states=True):
        x = F.dropout(self.embed(x), p=0.1, training=self.training)
        seen = () if output_hidden_states else None
        for i, layer in enumerate(self.layers):
            if output_hidden_states:
                seen += (x,)
            if self.training:
                probability = torch.rand([])
                if probability < self.drop:
                    continue
            x = layer(x, mask=mask if i else None)[0]
        return self.head(x), seen


class LayerDropByNumpy(LayerDrop):
    """Wav2Vec2: the random number is a Python float, all layers may be skipped, hooks are called in the loop."""

    def forward(self, x, mask=None):
        x = self.embed(x)
        outputs = None
        for layer in self.layers:
            skip = self.training and np.random.uniform(0, 1) < self.drop
            if not skip:
                outputs = layer(x, mask)
                x = outputs[0]
        else:
            x = x * 2
        return self.head(x), outputs is None


class Experts(nn.Module):
    """Mixtral: each token goes to its two best experts; a loop over the experts that were hit."""

    def __init__(self, size=16, experts=4):
        super().__init__()
        self.gate = nn.Linear(size, experts, bias=False)
        self.experts = nn.ModuleList(nn.Linear(size, size) for _ in range(experts))

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        weights = F.softmax(self.gate(tokens), dim=-1)
        weights, chosen = torch.topk(weights, 2, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(tokens)
        one_hot = F.one_hot(chosen, len(self.experts)).permute(2, 1, 0)
        for expert in torch.greater(one_hot.sum(dim=(-1, -2)), 0).nonzero():
            slot, token = torch.where(one_hot[expert[0]])
            y = self.experts[int(expert[0])](tokens[token]) * weights[token, slot, None]
            out.index_add_(0, token, y)
        return out.reshape(x.shape), weights


class Scan(nn.Module):
    """Mamba: a recurrence over the sequence in a cache that a loop fills, with a break in it."""

    def __init__(self, size=16, state=4, layers=2):
        super().__init__()
        self.project = nn.ModuleList(nn.Linear(size, 2 * size) for _ in range(layers))
        self.decay = nn.Parameter(torch.rand(size, state))

    def forward(self, x, cache=None):
        if cache is None:
            cache = {}
        for i, project in enumerate(self.project):
            value, gate = project(x).chunk(2, dim=-1)
            state = cache.get(i, torch.zeros(x.shape[0], *self.decay.shape))
            outputs = []
            for t in range(x.shape[1]):
                state = state * torch.exp(-self.decay) + value[:, t, :, None]
                if not torch.isfinite(state).all():
                    raise ValueError("not finite")
                outputs.append(state.sum(-1))
            cache[i] = state
            x = torch.stack(outputs, dim=1) * F.silu(gate)
        return x, cache


class MaskedTime(nn.Module):
    """Wav2Vec2, SpecAugment: spans that NumPy draws are masked, in a loop over the batch."""

    def __init__(self, size=16):
        super().__init__()
        self.mask = nn.Parameter(torch.rand(size))
        self.head = nn.Linear(size, size)

    def forward(self, x):
        x = self.head(x)
        if self.training:
            masked = np.zeros(x.shape[:2], dtype=bool)
            for row in masked:
                start = np.random.randint(0, len(row) - 1)
                if start % 3 == 2:
                    continue
                row[start : start + 2] = True
            x = torch.where(torch.from_numpy(masked)[..., None], self.mask, x)
        return self.head(x).tanh()


MODELS = [LayerDrop, LayerDropByNumpy, Experts, Scan, MaskedTime]


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [tensor for item in items for tensor in tensors(item)]


def step(call, model, x, training, seed):
    """The results of one call, the gradients in training, and what is drawn next."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    model.zero_grad(set_to_none=True)
    with torch.set_grad_enabled(training):
        result = tensors(call(x))
    if training:
        sum(r.float().square().mean() for r in result).backward()
    gradients = [p.grad for p in model.parameters()]
    return result, gradients, (torch.rand([]).item(), np.random.rand(), random.random())


@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_equal_to_eager(make, training):
    cdynamo.config.suppress_errors = False
    torch.manual_seed(0)
    model = make().train(training)
    fast = cdynamo.optimize(model)
    for seed in range(6):
        x = torch.randn(2 + seed % 2, 5, 16)
        expected, expected_gradients, expected_draws = step(model, model, x, training, seed)
        got, gradients, draws = step(fast, model, x, training, seed)
        assert len(got) == len(expected) and draws == expected_draws
        for a, b in zip(got + gradients, expected + expected_gradients):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
