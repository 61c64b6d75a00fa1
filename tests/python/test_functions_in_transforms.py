"""Functions of the user under torch.vmap and torch.func.grad: captured where eager would do the same, else eager's."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch.autograd import Function  # noqa: E402
from torch.func import grad, vmap  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


class Generated(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * y.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return 3 * g * y.sin(), g * x * y.cos()


class NoVmap(Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * 5


class OwnVmap(NoVmap):
    """What it does to a batch is seen."""

    @staticmethod
    def vmap(info, in_dims, x):
        return OwnVmap.apply(x) + 100, in_dims[0]


class NoSetup(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 5


PROGRAMS = {
    "generated": lambda x: vmap(Generated.apply)(x, x.cos()),
    "generated_for_one": lambda x: vmap(Generated.apply, (0, None))(x, x[0]),
    "gradient_of_generated": lambda x: vmap(grad(lambda a: Generated.apply(a, a.sin()).sum()))(x),
    "gradient_of_generated_for_one": lambda x: vmap(grad(lambda a, b: Generated.apply(a, b).sum()), (0, None))(x, x[0]),
    "gradient_twice": lambda x: vmap(grad(lambda a: (grad(lambda b: Generated.apply(b, b).sum())(a) ** 2).sum()))(x),
    "two_levels": lambda x: vmap(vmap(grad(lambda a: Generated.apply(a, a.cos()))))(x),
    "jacobian": lambda x: vmap(torch.func.jacrev(lambda a: Generated.apply(a, a)))(x),
    "own_vmap": lambda x: vmap(OwnVmap.apply)(x),
    "gradient_of_own_vmap": lambda x: vmap(grad(lambda a: OwnVmap.apply(a).sum()))(x),
    "own_vmap_of_what_is_not_batched": lambda x: vmap(lambda a: a + OwnVmap.apply(x[0]))(x),
}


# Under torch.func.grad alone no rule for vmap is asked for.
GRADIENTS = {
    "own_vmap": lambda x: grad(lambda a: OwnVmap.apply(a).sum())(x),
    "no_vmap": lambda x: grad(lambda a: NoVmap.apply(a).sum())(x),
}


def check(function, requires_grad, **options):
    results = []
    for f in (cdynamo.optimize(function, **options), function):
        x = torch.linspace(-1, 1, 12).view(4, 3).requires_grad_(requires_grad)
        result = f(x)
        gradient = torch.autograd.grad(result.sum(), x)[0] if result.requires_grad else None
        results.append((result.detach(), gradient))
    torch.testing.assert_close(*(r[0] for r in results))
    assert (results[0][1] is None) is (results[1][1] is None)
    if results[0][1] is not None:
        torch.testing.assert_close(*(r[1] for r in results))


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_gradients(name, requires_grad):
    check(PROGRAMS[name], requires_grad)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_without_vmap(name, requires_grad):
    check(GRADIENTS[name], requires_grad)


REFUSED = {
    "no_vmap": lambda x: vmap(NoVmap.apply)(x),
    "no_setup": lambda x: vmap(NoSetup.apply)(x),
    "gradient_without_setup": lambda x: grad(lambda a: NoSetup.apply(a).sum())(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_refuses(name):
    messages = []
    for f in (cdynamo.optimize(REFUSED[name]), REFUSED[name]):
        with pytest.raises(RuntimeError) as error:
            f(torch.randn(4, 3))
        messages.append(str(error.value))
    assert messages[0] == messages[1]


@pytest.mark.native
def test_one_graph_where_it_is_captured():
    for name, program in PROGRAMS.items():
        if "own_vmap" not in name:
            check(program, False, fullgraph=True)
            check(program, True, fullgraph=True)
    for function in GRADIENTS.values():
        check(function, True, fullgraph=True)


@pytest.mark.native  # backends in Python get a graph break at a level
def test_a_function_after_what_is_differentiated():
    """A Function without setup_context is refused within a level of torch.func, and not after it."""

    def f(x):
        first = grad(lambda y: y.sin().sum())(x)
        value, vjp = torch.func.vjp(torch.cos, x)
        pushed = torch.func.jvp(torch.exp, (x,), (first,))[1]
        return NoSetup.apply(x) + NoSetup.apply(first) + vjp(NoSetup.apply(value))[0] + pushed

    ends = []
    for run in (f, cdynamo.optimize(f, fullgraph=True)):
        x = torch.linspace(0, 1, 6).requires_grad_()
        out = run(x)
        ends.append((out, *torch.autograd.grad(out.sum(), x)))
    torch.testing.assert_close(*ends)
