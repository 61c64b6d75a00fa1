"""Functions under set_materialize_grads(False): the backward is given None for each result that no gradient comes for."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch.autograd import Function  # noqa: E402
from training_check import assert_close, check, leaf  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


class Two(Function):
    """What it gives for both gradients is not the sum of what it gives for each."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        dx = dy = None
        if g is not None:
            dx = 3 * g * y
        if h is not None:
            dy = 5 * x.sin() * h
            if g is not None:
                dx = dx + 100 * h
        return dx, dy


class Three(Function):
    """With a result that has no gradient, and arguments that are no tensors."""

    @staticmethod
    def forward(ctx, scale, x):
        ctx.set_materialize_grads(False)
        ctx.scale = scale
        index = x.argmax(-1)
        ctx.mark_non_differentiable(index)
        return x * scale, index, x.sin(), x.cos()

    @staticmethod
    def backward(ctx, *grads):
        total = None
        for i, grad in enumerate(grads):
            if grad is not None:
                assert i != 1
                total = grad * (i + 1) if total is None else total.clamp(-0.5, 0.5) + grad * (i + 1) * ctx.scale
        return None, total


def of_two(combine):
    return lambda x, y: combine(*Two.apply(x, y))


PROGRAMS = {
    "first": of_two(lambda a, b: a),
    "second": of_two(lambda a, b: b),
    "sum": of_two(lambda a, b: a + b),
    "zeros": of_two(lambda a, b: a + b * 0),
    "floor": of_two(lambda a, b: a + b.floor()),
    "condition": of_two(lambda a, b: torch.where(b > 0, a, 0.0)),
    "detached": of_two(lambda a, b: a * b.detach()),
    "stacked": of_two(lambda a, b: torch.stack([a, b])[0]),
    "twice": of_two(lambda a, b: Two.apply(a, b)[1]),
    "three": lambda x, y: Three.apply(2.0, x * y)[2],
    "three_of_them": lambda x, y: (lambda a, _, b, c: a * b + c)(*Three.apply(2.0, x * y)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name):
    check(PROGRAMS[name], leaf(4, 4), leaf(4, 4), fullgraph=True)
    check(PROGRAMS[name], leaf(4, 4), torch.randn(4, 4), fullgraph=True)


@pytest.mark.parametrize("function", [lambda x, y: Two.apply(x, y), lambda x, y: Three.apply(0.5, x * y)[::2]])
def test_gradients_of_some_of_the_results(function):
    compiled = cdynamo.optimize(function, fullgraph=True)
    x, y = leaf(3), leaf(3)
    for asked in ([0], [1], [0, 1], [1]):
        gradients = []
        for f in (compiled, function):
            results = f(x, y)
            roots = [results[i].sum() for i in asked]
            gradients.append(torch.autograd.grad(roots, (x, y), allow_unused=True))
        for ours, eagers in zip(*gradients):
            assert_close(ours, eagers, str(asked))


def test_gradients_within_the_graph():
    def step(x, y):
        a, b = Two.apply(x.sin(), y)
        (first,) = torch.autograd.grad(a.sum(), x, create_graph=True)
        (both,) = torch.autograd.grad(a.sum() + b.square().sum(), x)
        return first * both

    check(step, leaf(5), leaf(5), fullgraph=True)


def test_a_gradient_of_zeros_is_made_by_nobody():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            return 2 * g if h is None else 3 * h if g is None else 2 * g + 3 * h

    check(lambda x: Same.apply(x)[0].exp(), leaf(4), fullgraph=True)
    x = leaf(4)
    (gradient,) = torch.autograd.grad(cdynamo.optimize(Same.apply)(x)[1].sum(), x, create_graph=True)
    assert gradient.tolist() == [3.0] * 4


def test_what_is_not_captured_is_eagers():
    class Many(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return tuple(x * i for i in range(5))

        @staticmethod
        def backward(ctx, *grads):
            return sum(grad * i for i, grad in enumerate(grads) if grad is not None)

    class NeedsBoth(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, g, h):
            return g * h

    def many(x):
        return Many.apply(x * 1)[3].exp()

    def needs_both(x):
        a, b = NeedsBoth.apply(x * 1)
        return a * b

    for function in (many, needs_both):
        before = cdynamo.counters()["graph_breaks"]
        compiled = check(function, leaf(3))
        assert cdynamo.counters()["graph_breaks"] > before

    compiled = cdynamo.optimize(lambda x: NeedsBoth.apply(x * 1))
    x = leaf(3)
    with pytest.raises(TypeError, match="NoneType"):
        compiled(x)[0].sum().backward()
