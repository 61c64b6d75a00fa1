"""What hooks and the backward of Functions read besides their arguments is what is there when gradients come."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch.autograd import Function  # noqa: E402


class Scaled(Function):
    """Scales gradients by the sum of a list."""

    @staticmethod
    def forward(ctx, x, factors):
        ctx.factors = factors
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * sum(ctx.factors), None


class Settings:
    factor = 2

    def __init__(self):
        self.own = 2


SETTINGS = Settings()
NUMBERS = [2]
NUMBER = 2


class ReadsAClass(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return grad * Settings.factor


class ReadsTheMode(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * (3 if torch.is_grad_enabled() else 5) * (7 if grad.requires_grad else 11)


class ReadsTheLayout(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * (2 if grad.is_contiguous() else 3) * (1 + grad.stride(0))


def variable_of_an_input(x):
    k = 1
    x.register_hook(lambda g: g * k)
    y = x * 2
    k = 10
    return y


def list_of_an_input(x):
    k = [1.0]
    x.register_hook(lambda g: g * sum(k))
    k.append(10.0)
    return x * 2


def variable(x):
    k = 2
    y = x * 2
    y.register_hook(lambda g: g * k)
    z = y.sin()
    k = 7
    return z


def variable_behind_a_break(x):
    k = 2
    y = x * 2
    y.register_hook(lambda g: g * k)
    z = y.sin()
    cdynamo.graph_break()
    k = 7
    return z


def variable_of_a_loop(x):
    for i in range(3):
        x = x * 2
        x.register_hook(lambda g: g + i)  # noqa: B023
    return x


def variable_in_a_helper(x):
    def attach(y, hook):
        y.register_hook(hook)
        return y.sin()

    k = 2
    z = attach(x * 2, lambda g: g * k)
    k = 5
    return z


def list_that_grows(x):
    k = [1.0]
    y = x * 2
    y.register_hook(lambda g: g * sum(k))
    z = y.sin()
    k.append(4.0)
    return z


def dict_that_changes(x):
    k = {"a": 1.0}
    y = x * 2
    y.register_hook(lambda g: g * k["a"])
    z = y.sin()
    k["a"] = 4.0
    return z


def context(x):
    k = [1]
    y = Scaled.apply(x, k)
    k.append(5)
    return y


@pytest.mark.parametrize(
    "function",
    [
        variable_of_an_input, list_of_an_input, variable, variable_behind_a_break, variable_of_a_loop,
        variable_in_a_helper, list_that_grows, dict_that_changes, context,
    ],
)  # fmt: skip
def test_what_the_function_changes_afterwards(function):
    results = []
    for f in (function, cdynamo.optimize(function), cdynamo.optimize(function, backend="eager")):
        for _ in range(2):
            x = torch.ones(2, requires_grad=True)
            f(x).sum().backward()
            results.append(x.grad)
    for got in results:
        torch.testing.assert_close(got, results[0])


def hooked(hook):
    def function(x):
        y = x * 2
        y.register_hook(hook)
        return y.sin()

    return function


def of_a_closure():
    k = 2

    def change():
        nonlocal k
        k = 7

    return hooked(lambda g: g * k), change


def of_a_global():
    def change():
        global NUMBER
        NUMBER += 3

    return hooked(lambda g: g * NUMBER), change


def of_a_list():
    return hooked(lambda g: g * NUMBERS[0]), lambda: NUMBERS.insert(0, NUMBERS[0] + 2)


def of_an_attribute():
    return hooked(lambda g: g * SETTINGS.own), lambda: setattr(SETTINGS, "own", SETTINGS.own + 3)


def of_a_class():
    return ReadsAClass.apply, lambda: setattr(Settings, "factor", Settings.factor + 3)


def of_an_argument():
    k = [1]
    return (lambda x: Scaled.apply(x, k)), lambda: k.append(7)


@pytest.mark.parametrize("make", [of_a_closure, of_a_global, of_a_list, of_an_attribute, of_a_class, of_an_argument])
@pytest.mark.parametrize("backend", ["native", "eager"])
def test_what_changes_between_the_call_and_the_backward(make, backend):
    function, change = make()
    fast = cdynamo.optimize(function, backend=backend)
    for _ in range(2):
        x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
        out, expected = fast(x), function(y)
        change()
        out.sum().backward()
        expected.sum().backward()
        torch.testing.assert_close(x.grad, y.grad)


def factory(scale):
    return lambda g: g * scale


def constants(x):
    y = x * 2
    scale = 3
    y.register_hook(lambda g, factor=2: g * scale * factor + y.detach())
    return y.sin()


class Sized(Function):
    @staticmethod
    def forward(ctx, x, sizes, factor):
        ctx.sizes, ctx.factor = sizes, factor
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.sizes[1] * ctx.factor, None, None


SETTINGS.sizes, SETTINGS.scale = (2, 3), 0.5


def arguments(x):
    return Sized.apply(x, SETTINGS.sizes, SETTINGS.scale)


@pytest.mark.native
@pytest.mark.parametrize("function", [arguments, constants, hooked(factory(3))])
def test_what_nobody_can_change_is_captured(function):
    fast = cdynamo.optimize(function, fullgraph=True)
    before = cdynamo.counters()["graph_breaks"]
    for f in (fast, cdynamo.optimize(function)):
        x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
        f(x).sum().backward()
        function(y).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    assert cdynamo.counters()["graph_breaks"] == before


def test_the_grad_mode_is_that_of_the_backward():
    hook = hooked(lambda g: g * (3 if torch.is_grad_enabled() else 5))
    for function in (ReadsTheMode.apply, hook):
        fast = cdynamo.optimize(function)
        for create_graph in (False, True):
            x = torch.ones(2, requires_grad=True)
            got, expected = (
                torch.autograd.grad((f(x) ** 2).sum(), x, create_graph=create_graph)[0] for f in (fast, function)
            )
            torch.testing.assert_close(got, expected)


def test_gradients_lie_as_they_come():
    def hooked(x):
        y = x * 2
        y.register_hook(lambda g: g * (2 if g.is_contiguous() else 3) * (1 + g.stride(0)))
        return y

    for function in (ReadsTheLayout.apply, hooked):
        fast = cdynamo.optimize(function)
        for given in (torch.ones(2, 3), torch.ones(3, 2).t()):
            x = torch.ones(2, 3, requires_grad=True)
            got, expected = (torch.autograd.grad(f(x), x, given)[0] for f in (fast, function))
            torch.testing.assert_close(got, expected)


def test_a_hook_is_not_called_where_no_gradient_comes():
    def function(x):
        y, z = x * 2, x * 3
        y.register_hook(lambda g: norms.append(g.norm()))
        return y, z

    fast = cdynamo.optimize(function)
    for which, count in ((1, 0), (0, 1)):
        norms = []
        x = torch.ones(2, requires_grad=True)
        fast(x)[which].sum().backward()
        assert len(norms) == count

    def two(x):
        return x * 2, x.sin()

    y, z = cdynamo.optimize(two)(x)
    handle = y.register_hook(lambda g: g * 2)
    z.sum().backward(retain_graph=True)
    x.grad = None
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [4.0, 4.0]
    handle.remove()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
