"""torch.func inside of a compiled function: values, histories and errors are eager's."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch import func, nn  # noqa: E402
from training_check import assert_close, check, tensors_of  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def compare(function, *inputs, breaks=0):
    expected = tensors_of(function(*inputs))
    before = cdynamo.counters()["graph_breaks"]
    compiled = cdynamo.optimize(function)
    for _ in range(2):
        got = tensors_of(compiled(*inputs))
        assert len(got) == len(expected)
        for a, b in zip(got, expected):
            assert_close(a, b)
    if breaks is not None:
        assert cdynamo.counters()["graph_breaks"] - before == breaks


def product(a, b):
    return (a.sin() * b).sum()


def with_no_grad(x):
    with torch.no_grad():
        constant = x * x
    return (x * constant + x.detach() * x).sum()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: func.grad(product)(x, y),
        lambda x, y: func.grad(product, argnums=1)(x, y),
        lambda x, y: func.grad(product, argnums=(0, -1))(x, y),
        lambda x, y: func.grad_and_value(product)(x, b=y),
        lambda x, y: func.grad(lambda a: (product(a, y), (a.cos(), y)), has_aux=True)(x),
        lambda x, y: func.grad_and_value(lambda a: (product(a, y), a.cos()), has_aux=True)(x),
        lambda x, y: func.grad(lambda a: func.grad(product)(a, y).sum())(x),
        lambda x, y: func.grad(lambda a: (a * x).sum())(x),  # only `a` varies
        lambda x, y: func.grad(lambda t: (t["a"] * t["b"][0]).sin().sum())({"a": x, "b": [y, x]}),
        lambda x, y: func.grad(with_no_grad)(x),
        lambda x, y: func.grad(lambda a: (x * y).sum())(x),
        lambda x, y: func.grad(lambda a: func.grad(with_no_grad)(a * y).sum())(x),
        lambda x, y: func.vjp(torch.sin, x)[1](y),
        lambda x, y: func.vjp(lambda a, b: (a * b, a.exp()), x, y)[1]((x, y)),
        lambda x, y: func.vjp(lambda a: (a.sin(), a.cos()), x, has_aux=True)[2],
    ],
)
def test_transforms(function):
    x, y = torch.randn(4), torch.randn(4)
    compare(function, x, y)
    # Histories of what comes in go on through a level.
    check(function, x.requires_grad_(), y)
    with torch.no_grad():
        compare(function, x, y)


def test_functional_call():
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    parameters = {name: p.detach().clone() for name, p in network.named_parameters()}

    def loss(parameters, x):
        return func.functional_call(network, parameters, (x,)).square().mean()

    def adapted(x):
        gradients = func.grad(loss)(parameters, x)
        return loss({name: p - 0.1 * gradients[name] for name, p in parameters.items()}, x), gradients

    compare(adapted, torch.randn(5, 3))


def test_a_transform_made_outside():
    gradient = func.grad(product)
    compare(lambda x, y: gradient(x, y) * 2, torch.randn(3), torch.randn(3))


def test_what_is_left_to_eager():
    x, y = torch.randn(4), torch.randn(4)

    # The function that vjp gives leaves the compiled one.
    value, pull_back = cdynamo.optimize(lambda t: func.vjp(torch.sin, t))(x)
    torch.testing.assert_close(value, x.sin())
    torch.testing.assert_close(pull_back(y)[0], y * x.cos())

    for function in (
        lambda x, y: func.vmap(func.grad(lambda a: a.sin().sum()))(x[None]),
        lambda x, y: func.jacrev(torch.sin)(x),
        lambda x, y: func.jvp(torch.sin, (x,), (y,)),
        lambda x, y: func.hessian(lambda a: (a**3).sum())(x),
    ):
        compare(function, x, y, breaks=None)

    def writes(a):
        a.mul_(2)
        return a.sum()

    for wrong in (
        lambda x: func.grad(writes)(x),
        lambda x: func.grad(torch.sin)(x),
        lambda x: func.grad(lambda n: n.sum())(x.int()),
    ):
        with pytest.raises(RuntimeError) as eager:
            wrong(x)
        with pytest.raises(RuntimeError) as compiled:
            cdynamo.optimize(wrong)(x)
        assert str(compiled.value) == str(eager.value)


def with_aux(a, b):
    return (a.sin() * b).sum(0), {"twice": a * 2, "largest": [b.argmax(), a.detach().max()]}


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: func.jvp(with_aux, (x, y), (y, x), has_aux=True),
        lambda x, y: func.jvp(lambda a: (a.sin(), a * y), (x,), (y,), has_aux=True),
        lambda x, y: func.jacrev(with_aux, has_aux=True)(x, y),
        lambda x, y: func.jacrev(with_aux, argnums=(0, 1), has_aux=True)(x, y),
        lambda x, y: func.jacfwd(with_aux, has_aux=True)(x, y),
        lambda x, y: func.jacrev(lambda a: (a.sin(), (a.exp(), y * 2)), has_aux=True)(x),
        lambda x, y: func.vmap(lambda a, b: func.jvp(lambda t: (t.sin(), t.cos()), (a,), (b,), has_aux=True))(x, y),
    ],
)
def test_aux(function):
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    compare(function, x, y)
    check(function, x.requires_grad_(), y.requires_grad_())


@pytest.mark.native
def test_linearize():
    def f(x, t):
        calls = []

        def of(a, b):
            calls.append(1)
            return {"first": (a.sin() * b).sum(-1), "second": a * b}

        value, pushed = torch.func.linearize(of, x, x + 1)
        return value, pushed(t, t * 2), pushed(x, t), len(calls)

    def nested(x, t):
        _, pushed = torch.func.linearize(lambda a: (a["w"].exp() @ x).tanh(), {"w": x.t()})
        return pushed({"w": t.t()}) + torch.func.jvp(torch.sin, (x[:3, :3],), (t[:3, :3],))[1].sum()

    x, t = torch.rand(4, 3), torch.rand(4, 3)
    for function in (f, nested):
        torch.testing.assert_close(cdynamo.optimize(function, fullgraph=True)(x, t), function(x, t))


@pytest.mark.native
def test_gradients_through_what_linearize_gives():
    def f(x, t):
        return torch.func.linearize(lambda a: a.sin() * a, x)[1](t).cos().sum()

    x, t = torch.rand(4, 3), torch.rand(4, 3, requires_grad=True)
    found, wanted = (torch.autograd.grad(run(x, t), t)[0] for run in (cdynamo.optimize(f, fullgraph=True), f))
    torch.testing.assert_close(found, wanted)


def test_what_linearize_leaves_to_eager():
    def escapes(x):
        return torch.func.linearize(torch.sin, x)[1]

    def wrong(x):
        return torch.func.linearize(torch.sin, x)[1](x[0])

    x = torch.rand(4, 3)
    torch.testing.assert_close(cdynamo.optimize(escapes)(x)(x), escapes(x)(x))
    for run in (wrong, cdynamo.optimize(wrong)):
        with pytest.raises(RuntimeError, match="doesn't match the shape"):
            run(x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: func.grad(lambda a: (product(a, y), a), has_aux=True)(x)[1],
        lambda x, y: func.grad(lambda a: (product(a, y), {"row": a.t()[0]}), has_aux=True)(x)[1]["row"],
        lambda x, y: func.grad(lambda a: (product(a, y), a.unbind(1)[1]), has_aux=True)(x)[1],
        lambda x, y: func.grad(lambda a: (product(a, y), a.contiguous()), has_aux=True)(x.t())[1],
        lambda x, y: func.vjp(lambda a: a, x)[0],
        lambda x, y: func.vjp(lambda a, b: (b.t(), a), y, x)[0][0],
        lambda x, y: func.vjp(lambda a: (a.sin(), a), x, has_aux=True)[2],
        lambda x, y: func.jvp(lambda a: a, (x,), (y,))[0],
        lambda x, y: func.jvp(lambda a: a.view(-1), (x,), (y,))[0],
        lambda x, y: func.jvp(lambda a: (a.sin(), a), (x,), (y,), has_aux=True)[2],
        lambda x, y: func.jacrev(lambda a: (a.sin(), (a, a * 2)), has_aux=True)(x)[1][0],
        lambda x, y: func.jacrev(lambda a, b: (a.sin(), b), has_aux=True)(y, x)[1],
        lambda x, y: func.jacfwd(lambda a: (a.sin(), a), has_aux=True)(x)[1],
        lambda x, y: func.vmap(lambda a, b: (b.sin(), a))(x, y)[1],
        lambda x, y: func.vmap(func.grad(lambda a: (a.sin().sum(), a), has_aux=True))(x)[1],
    ],
)
def test_results_that_are_arguments(function):
    """Or views of them, which what is written to a result shows."""

    def writes(x, y):
        result = function(x, y)
        same = result is x
        result.mul_(3)
        return result, x * y, same

    wanted, got = [], []
    for run, results in ((writes, wanted), (cdynamo.optimize(writes), got)):
        x, y = torch.arange(9.0).view(3, 3), torch.ones(3, 3)
        results += [*run(x, y), x]
    assert got[2] == wanted[2] and got[0].stride() == wanted[0].stride()
    for i in (0, 1, 3):
        assert torch.equal(got[i], wanted[i])
