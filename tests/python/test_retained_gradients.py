"""retain_grad() of what a compiled function computes: every .grad is eager's."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from training_check import assert_same, leaf  # noqa: E402


def retained(x, w):
    y = x.sin() @ w
    y.retain_grad()
    y.exp().sum().backward()
    return y.grad


def of_several(x, w):
    y = x.sin() @ w
    y.retain_grad()
    z = (y * w).tanh()
    z.retain_grad()
    z.sum().backward()
    return y.grad + z.grad, x.grad, w.grad


def before_and_after(x, w):
    y = x.sin() @ w
    z = y * x
    y.retain_grad()
    y.retain_grad()
    (z + y).pow(2).sum().backward()
    return y.grad, z.detach()


def twice(x, w):
    y = x @ w
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    first = y.grad
    (y * y).sum().backward()
    return first, y.grad, y.grad is first


def dropped(x, w):
    y = x @ w
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    y.grad = None
    (y * y).sum().backward()
    return y.grad


def of_its_own(x, w):
    y = x + w
    y.retain_grad()
    y.sum().backward()
    y.grad.mul_(3)
    return y.grad, x.grad, w.grad


def lies_otherwise(x, w):
    y = x.t() * 2
    y.retain_grad()
    (y.t() * w).t().contiguous().square().sum().backward()
    return y.grad


def not_on_the_way(x, w):
    y = x * 2
    y.retain_grad()
    (x * w).sum().backward()
    return y * 1, x.grad


def without_backward(x, w):
    y = x * w
    y.retain_grad()
    return y * 2


CAPTURED = [retained, of_several, before_and_after, twice, dropped, of_its_own, lies_otherwise, not_on_the_way, without_backward]  # fmt: skip


def leaves(x, w):
    y = x.sin() @ w
    y.retain_grad()
    y.exp().sum().backward()
    return y, y.grad


def leaves_with_what_reads_it(x, w):
    y = x * 2
    z = y.sin() * w
    y.retain_grad()
    return y, z


def written_to(x, w):
    y = x * 2
    y.retain_grad()
    y.mul_(w)
    y.sum().backward()
    return y.grad


def hooked(x, w):
    y = x * 2
    y.register_hook(lambda g: g * 3)
    y.retain_grad()
    (y * w).sum().backward()
    return y.grad


def hooked_later(x, w):
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    (y * w).sum().backward()
    return y.grad


def of_a_view(x, w):
    y = (x * 2).view(-1)
    y.retain_grad()
    (y * w.view(-1)).sum().backward()
    return y.grad


def of_the_loss(x, w):
    y = (x * w).sum()
    y.retain_grad()
    y.backward()
    return y.grad


def by_torch_autograd_grad(x, w):
    y = x * 2
    y.retain_grad()
    gradient = torch.autograd.grad((y * w).sum(), x)[0]
    return gradient, y.grad


def past_a_graph_break(x, w):
    y = x * 2
    y.retain_grad()
    z = (y * w).sum()
    cdynamo.graph_break()
    z.backward()
    return y.grad


BROKEN = [leaves, leaves_with_what_reads_it, written_to, hooked, hooked_later, of_a_view, of_the_loss, by_torch_autograd_grad, past_a_graph_break]  # fmt: skip


def outcome(function, seed):
    torch.manual_seed(seed)
    x, w = leaf(4, 4), leaf(4, 4)
    result = function(x, w)
    results = result if isinstance(result, tuple) else (result,)
    after = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
    if after and function.__name__ != "leaves":
        sum((r * r).sum() for r in after).backward()
    kept = [r.grad for r in after if not r.is_leaf and r.retains_grad]
    return results, x.grad, w.grad, kept, [r.retains_grad for r in after]


@pytest.mark.parametrize("function", CAPTURED + BROKEN, ids=lambda f: f.__name__)
def test_retained(function):
    compiled = cdynamo.optimize(function, fullgraph=function in CAPTURED)
    compiled.__name__ = function.__name__
    for seed in range(3):
        assert_same(outcome(compiled, seed), outcome(function, seed))


def test_activations_of_a_model():
    """As in Grad-CAM: the gradient of a loss with respect to a layer's output."""
    torch.manual_seed(0)
    features, head = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), nn.Linear(4, 5)

    def heat(image, target):
        maps = features(image)
        maps.retain_grad()
        score = head(maps.mean((2, 3)))[:, target].sum()
        score.backward()
        return torch.relu((maps.grad.mean((2, 3), keepdim=True) * maps.detach()).sum(1))

    image = torch.randn(2, 3, 8, 8)
    compiled = cdynamo.optimize(heat, fullgraph=True)
    for target in (1, 2):
        ours = compiled(image, target)
        assert_same(ours, heat(image, target), rtol=1e-5, atol=1e-6)
