"""Subclasses of torch.autograd.Function inside of a compiled function: the gradients are what their backward says."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.autograd import Function  # noqa: E402
from torch.autograd.function import once_differentiable  # noqa: E402
from training_check import assert_close, assert_same_gradients, check, fresh, leaf, twins  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


class RoundStraightThrough(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Reverse(Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


reverse = Reverse.apply


class ClippedGradient(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-0.1, 0.1)


class Relu(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        grad_input = grad.clone()
        grad_input[x < 0] = 0
        return grad_input


class Exponential(Function):
    """Saves its result."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


class Linear(Function):
    @staticmethod
    def forward(x, weight, bias):
        return x @ weight.t() + bias

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grads = [None, None, None]
        if ctx.needs_input_grad[0]:
            grads[0] = grad @ weight
        if ctx.needs_input_grad[1]:
            grads[1] = grad.t() @ x
        if ctx.needs_input_grad[2]:
            grads[2] = grad.sum(0)
        return tuple(grads)


class Wrong(Function):
    """No derivative of its forward: whoever differentiates that is found out."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return 3 * g * y + h, 5 * x.sin() * h


class Indices(Function):
    @staticmethod
    def forward(ctx, x):
        values, indices = x.max(dim=-1)
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        return values, indices

    @staticmethod
    def backward(ctx, grad, grad_indices):
        assert grad_indices is None or grad_indices.abs().sum().shape == ()
        (indices,) = ctx.saved_tensors
        return torch.zeros(*grad.shape, 4).scatter(-1, indices.unsqueeze(-1), grad.unsqueeze(-1))


class NotMaterialized(Function):
    @staticmethod
    def forward(ctx, x, flag=True):
        ctx.set_materialize_grads(False)
        return x.sin(), "a string"

    @staticmethod
    def backward(ctx, grad, nothing):
        assert nothing is None
        return grad * 7, None


PROGRAMS = {
    "straight_through": lambda x, y: (RoundStraightThrough.apply(x * 3) * y).sum(),
    "reverse": lambda x, y: (x * y).sin() + Reverse.apply(x * y, 0.5).cos() + Reverse.apply(x, 2.0),
    "clipped": lambda x, y: ClippedGradient.apply(x * y) * y,
    "relu": lambda x, y: Relu.apply(x) * Relu.apply(y - x),
    "exponential": lambda x, y: Exponential.apply(x).sin() * y + Exponential.apply(y),
    "linear": lambda x, y: Linear.apply(x, y, x[0] * 2).tanh(),
    "wrong": lambda x, y: sum(Wrong.apply(x, y)),
    "wrong_one_used": lambda x, y: Wrong.apply(x, y)[0],
    "not_materialized": lambda x, y: NotMaterialized.apply(x)[0] * y,
    "nested": lambda x, y: Relu.apply(Exponential.apply(Reverse.apply(x, 0.3))) * RoundStraightThrough.apply(y),
    "argument_as_it_is": lambda x, y: Reverse.apply(x, 3.0),
    "indices": lambda x, y: Indices.apply(x * y),
    "a_name_for_apply": lambda x, y: reverse(x, 0.5) + y,
    "same_arguments_twice": lambda x, y: RoundStraightThrough.apply(x) + Relu.apply(x) + ClippedGradient.apply(x) * 9,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name):
    check(PROGRAMS[name], leaf(4, 4), leaf(4, 4), fullgraph=True)
    check(PROGRAMS[name], leaf(4, 4), torch.randn(4, 4), fullgraph=True)
    check(PROGRAMS[name], torch.randn(4, 4), torch.randn(4, 4), fullgraph=True)


@pytest.mark.parametrize("name", ["exponential", "linear", "wrong", "nested", "reverse", "relu", "straight_through"])
def test_second_derivatives(name):
    function = PROGRAMS[name]

    def second(f, *inputs):
        out = f(*inputs)
        first = torch.autograd.grad(out.square().sum(), inputs, create_graph=True)
        return [*first, *torch.autograd.grad(sum(g.sin().sum() for g in first), inputs, allow_unused=True)]

    x, y = leaf(4, 4), leaf(4, 4)
    compiled = cdynamo.optimize(function)
    for ours, theirs in zip(second(compiled, x, y), second(function, x, y)):
        assert_close(ours, theirs, name)


@pytest.mark.native
def test_second_derivatives_where_the_backward_is_not_linear():
    """In parts, such a backward gives something else than for the whole: it is refused, not computed wrongly."""

    class Shifted(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad + 0.5

    for function in (ClippedGradient.apply, Shifted.apply):
        inside = lambda x: function(x * x) * x  # noqa: B023
        x = leaf(4)
        results = []
        for f in (inside, cdynamo.optimize(inside)):
            results.append(torch.autograd.grad(f(x).square().sum(), x, create_graph=True)[0])
        assert_close(results[1], results[0])
        with pytest.raises(RuntimeError, match="not linear"):
            torch.autograd.grad(results[1].sum(), x)

        def penalty(x):
            (g,) = torch.autograd.grad(inside(x).square().sum(), x, create_graph=True)  # noqa: B023
            return g.square().sum()

        check(penalty, leaf(4))


def test_gradients_inside_of_the_function():
    def penalty(x):
        y = Exponential.apply(x)
        (g,) = torch.autograd.grad(Reverse.apply(y, 0.5).square().sum(), x, create_graph=True)
        return g.square().sum() + y.sum()

    check(penalty, leaf(5))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 3))

    def step(model, x):
        loss = Relu.apply(RoundStraightThrough.apply(x @ model.weight) + x @ model.weight).sum()
        loss.backward()
        return loss

    eager, compiled = Model(), Model()
    compiled.load_state_dict(eager.state_dict())
    x = torch.randn(2, 3)
    assert_close(cdynamo.optimize(step)(compiled, x).detach(), step(eager, x).detach())
    assert_same_gradients(compiled, eager)


def test_in_a_module_under_no_grad_and_in_a_checkpoint():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x):
            hidden = Relu.apply(self.first(RoundStraightThrough.apply(x)))
            return self.second(Reverse.apply(hidden, 0.1))

    eager, compiled = twins(Model())
    x = torch.randn(3, 4)
    for model in (eager, compiled):
        model(x).square().sum().backward()
    assert_same_gradients(compiled, eager)
    with torch.no_grad():
        assert_close(compiled(x), eager(x))

    from torch.utils.checkpoint import checkpoint

    check(
        lambda x, y: checkpoint(PROGRAMS["nested"], x, y, use_reentrant=False), leaf(3, 3), leaf(3, 3), fullgraph=True
    )


@pytest.mark.native
def test_what_is_reached_through_the_context():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, module):
            ctx.module, ctx.shape, ctx.x = module, x.shape, x
            return x * module.scale

        @staticmethod
        def backward(ctx, grad):
            assert ctx.needs_input_grad == (True, False)
            return (grad * ctx.module.scale * ctx.x.sin()).view(ctx.shape), None

    module = nn.Module()
    module.scale = torch.randn(3)
    check(lambda x: Scale.apply(x, module), leaf(2, 3), fullgraph=True)


def breaks(function, *inputs):
    before = cdynamo.counters()["graph_breaks"]
    check(function, *inputs)
    return cdynamo.counters()["graph_breaks"] - before


@pytest.mark.native
def test_what_is_not_captured_is_eagers():
    class Dirty(Function):
        """Writes to its second argument."""

        @staticmethod
        def forward(ctx, x, y):
            y.mul_(2)
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            return None, grad * 2

    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            return x.sin()

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return grad * 2

    class Printing(Function):
        @staticmethod
        def forward(ctx, x):
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            log.append(1)
            return grad * 2

    class Random(Function):
        @staticmethod
        def forward(ctx, x):
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            torch.manual_seed(1)
            return grad * torch.rand(3)

    class Drawing(Function):
        @staticmethod
        def forward(ctx, x):
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            return grad + 0 * torch.rand(3)

    log = []
    assert breaks(lambda x: Dirty.apply(1.0, x * 1).sin(), leaf(3))
    assert breaks(lambda x: Once.apply(x * 1).sin(), leaf(3))
    assert breaks(lambda x: Printing.apply(x * 1).sin(), leaf(3))
    assert len(log) == 3
    assert breaks(lambda x: Random.apply(x * 1).sin(), leaf(3))
    assert breaks(lambda x: Drawing.apply(x * 1).sin(), leaf(3))


def test_errors_are_eagers():
    class Raising(Function):
        @staticmethod
        def forward(ctx, x):
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("not today")

    class Short(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, grad):
            return grad

    for function, inputs in ((Raising.apply, (leaf(3),)), (Short.apply, (leaf(3), leaf(3)))):
        messages = []
        for f in (function, cdynamo.optimize(lambda *inputs: function(*inputs))):  # noqa: B023
            out = f(*(fresh(x) for x in inputs))
            with pytest.raises((ValueError, RuntimeError)) as error:
                out.sum().backward()
            messages.append((type(error.value), str(error.value)))
        assert messages[0] == messages[1]


def test_sizes_that_change():
    compiled = cdynamo.optimize(lambda x: Relu.apply(x) * RoundStraightThrough.apply(x))
    for n in (3, 5, 7, 9):
        x = leaf(n)
        (got,) = torch.autograd.grad(compiled(x).sum(), x)
        (expected,) = torch.autograd.grad((Relu.apply(x) * RoundStraightThrough.apply(x)).sum(), x)
        assert_close(got, expected)


def test_a_backend_in_python_sees_the_call():
    seen = []

    def backend(gm, inputs):
        seen.extend(node.target for node in gm.graph.nodes if node.op == "call_function")
        return gm

    compiled = cdynamo.optimize(lambda x: Relu.apply(x.sin()) * 2, backend=backend)
    x = leaf(4)
    (got,) = torch.autograd.grad(compiled(x).sum(), x)
    (expected,) = torch.autograd.grad((Relu.apply(x.sin()) * 2).sum(), x)
    assert_close(got, expected)
    assert "apply_Relu" in [getattr(target, "__name__", "") for target in seen]


def two_leaves(*sizes):
    x = torch.randn(*sizes)
    return x.clone().requires_grad_(), x.clone().requires_grad_()


class SquareOnce(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, None)
        ctx.scale = scale
        return x * x * scale

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, nothing = ctx.saved_tensors
        assert nothing is None
        return 2 * x * grad * ctx.scale, None


@pytest.mark.native
def test_what_is_once_differentiable_is_captured_where_one_graph_is_demanded(counts):
    def f(x):
        return (SquareOnce.apply(x * 2, 3.0) ** 2).sum()

    fast = cdynamo.optimize(f, fullgraph=True)
    for rows in (2, 2, 3, 4):
        a, b = two_leaves(rows, 3)
        expected, got = f(a), fast(b)
        assert_close(got, expected)
        assert_close(torch.autograd.grad(got, b)[0], torch.autograd.grad(expected, a)[0])
    assert counts.graph_breaks == 0

    (gradient,) = torch.autograd.grad(fast(b), b, create_graph=True)
    with pytest.raises(RuntimeError):  # eager raises here, or where it comes to the Function
        gradient.sum().backward()

    def twice(x):
        (gradient,) = torch.autograd.grad(f(x), x, create_graph=True)
        return gradient.sum()

    with pytest.raises(cdynamo.GraphBreakError, match="once_differentiable"):
        cdynamo.optimize(twice, fullgraph=True)(b)


def test_once_differentiable_beside_what_has_second_derivatives():
    def f(x):
        (gradient,) = torch.autograd.grad((x**3).sum() + SquareOnce.apply(x, 2.0).sum(), x, create_graph=True)
        return gradient.square().sum()

    fast = cdynamo.optimize(f)
    a, b = two_leaves(2, 3)
    assert_close(torch.autograd.grad(fast(b), b)[0], torch.autograd.grad(f(a), a)[0])


class Doubled(Function):
    """Writes to its argument; the gradient is one of its own."""

    @staticmethod
    def forward(ctx, x, by=2.0):
        x.mul_(by)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 5 + x.detach(), None


class TimesOther(Function):
    @staticmethod
    def forward(ctx, x, w):
        before = x.clone()
        x.mul_(w)
        ctx.mark_dirty(x)
        ctx.save_for_backward(before, w)
        return x, before.sum()

    @staticmethod
    def backward(ctx, grad, grad_sum):
        before, w = ctx.saved_tensors
        return grad * w + grad_sum, grad * before


def written_and_returned(x):
    y = x * 1
    z = Doubled.apply(y, 2.0)
    return z.sin() + y, (z is y) * y


def written_alone(x):
    y = x * 1
    Doubled.apply(y, 3.0)
    return y.cos()


def written_part(x):
    y = x * 1
    Doubled.apply(y[0], 3.0)
    return y.cos()


def written_after_use(x):
    y = x * 1
    z = y + 1
    Doubled.apply(y, 3.0)
    return y * z


def written_with_another(x):
    y, w = x * 1, x.cos()
    z, total = TimesOther.apply(y, w)
    return z * y + total + w


@pytest.mark.parametrize(
    "function", [written_and_returned, written_alone, written_after_use, written_with_another, written_part]
)
def test_what_is_marked_as_dirty_is_written(function):
    check(function, leaf(2, 3), fullgraph=function is not written_part)


def test_what_is_marked_as_dirty_without_a_gradient():
    def f(x):
        z = Doubled.apply(x, 2.0)
        return z + 1, z is x

    a, b = torch.arange(3.0), torch.arange(3.0)
    expected, got = f(a), cdynamo.optimize(f, fullgraph=True)(b)
    assert torch.equal(got[0], expected[0]) and got[1] and torch.equal(a, b)


def test_leaves_that_are_marked_as_dirty_are_eagers():
    x = leaf(3)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        cdynamo.optimize(lambda x: Doubled.apply(x, 2.0))(x)


@pytest.mark.parametrize("before", range(5))
def test_what_a_backward_reads_is_called_otherwise_than_what_it_computes(before):
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad + x + x

    def f(x):
        for _ in range(before):
            x = x + 1
        return Scaled.apply(x)

    check(f, leaf(3))


class Keeps(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.sine = x.sin()
        return ctx.sine * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.sine


class Frees(Function):
    @staticmethod
    def forward(ctx, x):
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * (2 + len(ctx.saved_tensors))


class SavesForNothing(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@pytest.mark.parametrize("before", [torch.Tensor.view_as, torch.Tensor.add, torch.Tensor.mul])
@pytest.mark.parametrize("function", [RoundStraightThrough, Keeps, Frees, SavesForNothing])
def test_a_second_backward_is_refused_where_saved_tensors_are_read(function, before):
    def f(x):
        y = function.apply(before(x, x))
        cdynamo.graph_break()
        for _ in range(3):
            y.sum().backward()
        return x.grad

    ends = []
    for run in (f, cdynamo.optimize(f)):
        x = torch.arange(3.0, requires_grad=True)
        try:
            ends.append(run(x))
        except RuntimeError as error:
            ends.append(str(error))
    if isinstance(ends[0], str):
        assert ends[0] == ends[1]
    else:
        assert_close(ends[1], ends[0])


@pytest.mark.parametrize("backend", ["native", "eager"])
def test_a_dict_as_the_result_of_a_call(backend):
    class Parts(Function):
        @staticmethod
        def forward(ctx, x):
            return {"sum": x.sum(), 3: x * 2}

    def f(x):
        parts = Parts.apply(x)
        return parts["sum"] + parts[3], parts[3] * 2

    x = torch.arange(6.0).view(2, 3)
    for got, expected in zip(cdynamo.optimize(f, backend=backend, fullgraph=True)(x), f(x)):
        assert_close(got, expected)


def test_a_result_that_graphs_do_not_hold():
    class Boxed(Function):
        @staticmethod
        def forward(ctx, x):
            return {x + 1}, x

    def f(x):
        (y,), z = Boxed.apply(x * 2)
        return y * 2 + z

    x = torch.arange(3.0)
    for backend in ("native", "eager"):
        assert_close(cdynamo.optimize(f, backend=backend)(x), f(x))


@pytest.mark.parametrize("backend", ["native", "eager"])
def test_what_a_forward_that_raises_has_written(backend):
    class Raises(Function):
        @staticmethod
        def forward(ctx, x):
            x.neg_()
            raise KeyError("after the write")

    def f(x):
        try:
            Raises.apply(x)
        except KeyError:
            pass
        return x * 2

    a, b = torch.arange(3.0), torch.arange(3.0)
    assert_close(cdynamo.optimize(f, backend=backend)(a), f(b))
    assert_close(a, b)


def test_an_error_beside_a_function_has_the_line_of_the_program():
    def f(x, index):
        y = Reverse.apply(x, 2.0)
        y = y * x
        return y[index]

    def lines_of(function):
        with pytest.raises(IndexError) as raised:
            function(torch.ones(3, requires_grad=True), torch.tensor([7]))
        return [entry.lineno for entry in raised.traceback if entry.name == "f"]

    assert lines_of(cdynamo.optimize(f)) == lines_of(f) != []


def test_a_hook_of_an_input_beside_an_error_is_registered_once():
    def f(x, index):
        x.register_hook(lambda grad: grad * 2)
        return (x * 3)[index]

    counts = []
    for function in f, cdynamo.optimize(f):
        x = torch.ones(3, requires_grad=True)
        with pytest.raises(IndexError):
            function(x, torch.tensor([7]))
        counts.append(len(x._backward_hooks))
    assert counts == [1, 1]


class HandsOn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        return by


@pytest.mark.parametrize("by", [None, 2, "text"])
def test_an_argument_that_is_no_tensor_may_be_the_result(by):
    x = torch.ones(3)
    assert cdynamo.optimize(lambda x: (x + 1, HandsOn.apply(x, by)))(x)[1] == by


def test_what_gives_none_sends_zeros_to_a_function_before_it():
    class First(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g + 1

    class Second(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g, None

    def f(x):
        y = First.apply(x.sin())
        return Second.apply(y >= 1, y)

    def plain(x):
        y = x.sin()
        return Second.apply(y >= 1, y)

    def hooked(x):
        y = x.sin()
        y.register_hook(lambda g: None if g is None else g * 2)
        return Second.apply(y >= 1, y)

    for function in (f, plain, hooked):
        x = torch.linspace(0, 1, 4).requires_grad_()
        expected, got = (
            torch.autograd.grad(run(x).sum(), x, allow_unused=True)[0] for run in (function, cdynamo.optimize(function))
        )
        assert (got is None and expected is None) or torch.allclose(got, expected)


class Gives(torch.autograd.Function):
    """What `take` gives is the result."""

    @staticmethod
    def forward(ctx, x, take):
        return take(x)

    @staticmethod
    def backward(ctx, g):
        return g * 3, None


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("no_grad", [True, False])
@pytest.mark.parametrize("which", ["argument", "leaf", "computed", "constant", "detached"])
def test_a_result_that_was_there_before(which, no_grad, requires_grad):
    """PyTorch gives what a forward has found elsewhere a history itself, or takes its own away, and an argument an alias."""

    def f(x, w, c):
        take = {
            "argument": lambda q: q,
            "leaf": lambda q: w,
            "computed": lambda q: doubled,
            "constant": lambda q: c,
            "detached": lambda q: q.detach(),
        }[which]
        doubled = w * 2
        with torch.set_grad_enabled(not no_grad):
            return Gives.apply(x, take)

    seen = []
    for run in (f, cdynamo.optimize(f)):
        x = torch.linspace(0, 1, 3).requires_grad_(requires_grad)
        w, c = torch.ones(3, requires_grad=True), torch.ones(3)
        r = run(x, w, c)
        state = [(t.requires_grad, t.is_leaf, t.data_ptr() == r.data_ptr()) for t in (r, w, c)]
        if r.requires_grad:
            r.sum().backward()
        grads = [t.grad.tolist() if t.is_leaf and t.grad is not None else None for t in (x, w, c)]
        seen.append((state, r.tolist(), r is w, r is c, grads))
    assert seen[0] == seen[1]


def test_a_function_twice_of_one_leaf():
    """What the first call hands out is the leaf, which has a history of the second call when that is differentiated."""

    def f(x, y):
        first = Gives.apply(y, lambda q: x)
        Gives.apply(first + 1, lambda q: x)
        return x

    for run in (f, cdynamo.optimize(f)):
        x, y = torch.ones(1, 3, requires_grad=True), torch.ones(1, requires_grad=True)
        run(x, y).sum().backward()
        assert y.grad.item() == 27
