"""What PyTorch's autograd does around a compiled function: hooks, higher orders, modes, errors, checkpointing."""

from __future__ import annotations

import contextlib
import gc
import types
import weakref

import pytest
from saying import shout

import cdynamo

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint, checkpoint_sequential  # noqa: E402
from training_check import assert_close, assert_same_gradients, check, fresh, leaf, twins  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


# ---- hooks ---------------------------------------------------------------------------------------------------------


def test_hooks_of_tensors():
    def with_hooks(f):
        log = []
        x = torch.linspace(0, 1, 4).requires_grad_()
        x.register_hook(lambda g: log.append(("input", g.tolist())))
        out = f(x)
        out.register_hook(lambda g: g * 2)
        out.retain_grad()
        x.register_post_accumulate_grad_hook(lambda p: log.append(("done", p.grad.tolist())))
        out.sum().backward()
        return [x.grad, out.grad], log

    function = lambda x: x * x * 3
    (ours, log), (eagers, eager_log) = with_hooks(cdynamo.optimize(function)), with_hooks(function)
    for a, b in zip(ours, eagers):
        assert_close(a, b)
    assert log == eager_log


def test_hook_on_a_tensor_inside():
    def function(x):
        y = x.sin()
        if y.requires_grad:
            y.register_hook(lambda g: g * 10)
        return y * 2

    check(function, leaf(3))


def test_hooks_of_modules():
    def with_hooks(model):
        log = []
        model[0].register_forward_hook(lambda module, args, out: out * 2)
        model[1].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        model[2].register_full_backward_hook(lambda module, grads, outs: log.append(outs[0].sum().item()))
        model(torch.ones(2, 4)).square().sum().backward()
        return log

    eager, compiled = twins(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)))
    assert with_hooks(compiled) == pytest.approx(with_hooks(eager), rel=1e-5)
    assert_same_gradients(compiled, eager)


@pytest.mark.native
def test_hook_of_the_node():
    compiled = cdynamo.optimize(lambda x: x * 2)
    x, seen = leaf(3), []
    out = compiled(x)
    out.grad_fn.register_hook(lambda inputs, outputs: seen.append(len(inputs)))
    out.grad_fn.register_prehook(lambda grads: (grads[0] * 3,))
    out.sum().backward()
    assert seen == [1]
    assert_close(x.grad, torch.full((3,), 6.0))


# ---- retain_graph, create_graph ------------------------------------------------------------------------------------


def test_backward_twice():
    x = leaf(3)
    out = cdynamo.optimize(lambda x: x.exp())(x).sum()
    out.backward(retain_graph=True)
    out.backward()
    assert_close(x.grad, 2 * x.exp().detach())
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


DIFFERENTIABLE = {
    "product": (lambda x, y: x * y, [(3,), (3,)]),
    "chain": (lambda x, y: (x * y).sin().exp() / (1 + y * y), [(3,), (3,)]),
    "broadcast": (lambda x, y: (x * y).tanh().sum(0), [(2, 3), (3,)]),
    "matmul": (lambda x, y: (x @ y).sigmoid(), [(2, 3), (3, 2)]),
    "softmax": (lambda x, y: F.softmax(x * y, -1), [(2, 3), (3,)]),
    "layer_norm": (lambda x, y: F.layer_norm(x, (3,), y), [(2, 3), (3,)]),
    "gelu": (lambda x, y: F.gelu(x) * F.silu(y), [(4,), (4,)]),
    "gather": (lambda x, y: x[[0, 2, 0]] * y, [(3, 2), (2,)]),
    "views": (lambda x, y: torch.cat([x.T.reshape(-1), y[1:]]) ** 2, [(2, 3), (4,)]),
    "two outputs": (lambda x, y: (x * y, (x + y).cos()), [(3,), (3,)]),
    "conv": (lambda x, y: F.conv1d(x, y, padding=1), [(1, 2, 4), (2, 2, 3)]),
    "attention": (lambda x, y: F.scaled_dot_product_attention(x, y, x * y), [(1, 1, 3, 2), (1, 1, 3, 2)]),
    "log_softmax": (lambda x, y: F.cross_entropy(x * y, torch.tensor([0, 1])), [(2, 3), (3,)]),
}


# PyTorch's own attention has no second derivative.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.native if name == "attention" else ()) for name in DIFFERENTIABLE]
)
def test_gradcheck(name):
    function, shapes = DIFFERENTIABLE[name]
    inputs = [leaf(*shape, dtype=torch.float64) for shape in shapes]
    compiled = cdynamo.optimize(function)
    assert torch.autograd.gradcheck(compiled, inputs)
    assert torch.autograd.gradgradcheck(compiled, inputs)


def test_third_order():
    x, compiled = leaf(4, dtype=torch.float64), cdynamo.optimize(lambda x: (x.sin() * x).sum())
    value = compiled(x)
    expected = (x.sin() * x).sum()
    for _ in range(3):
        (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)
        (expected,) = torch.autograd.grad(expected.sum(), x, create_graph=True)
        torch.testing.assert_close(value, expected)


def test_gradients_that_are_not_plain_know_the_ints():
    def f(x, n):
        return (x * n).tanh()

    compiled, x = cdynamo.optimize(f, dynamic=True), leaf(2, 3, dtype=torch.float64)
    for n in (2, 3, 4):
        gradients = []
        for run in (f, compiled):
            value = torch.complex(torch.ones_like(x), run(x, n)).conj()
            assert value.is_conj()  # its imaginary part has the negative bit
            gradients += torch.autograd.grad(value.sum(), x, torch.tensor(1j, dtype=torch.complex128))
        torch.testing.assert_close(*gradients)


def test_gradient_penalty():
    def penalty(model, x):
        x = fresh(x)
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        loss = (gradient.norm(dim=-1) - 1).square().mean()
        loss.backward()
        return loss

    eager, compiled = twins(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)))
    x = leaf(5, 3)
    assert_close(penalty(compiled, x), penalty(eager, x))
    assert_same_gradients(compiled, eager)


def test_hessian_vector_product():
    function = lambda x: (x**3).sum() + (x[1:] * x[:-1]).prod()
    compiled = cdynamo.optimize(function)
    x, v = torch.rand(4), torch.rand(4)
    for ours, theirs in zip(
        torch.autograd.functional.hvp(compiled, x, v), torch.autograd.functional.hvp(function, x, v)
    ):
        assert_close(ours, theirs)


# ---- modes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode, contextlib.nullcontext])
@pytest.mark.parametrize("inside", [torch.no_grad, torch.enable_grad, torch.inference_mode, contextlib.nullcontext])
def test_modes_outside_and_inside(mode, inside):
    def function(x):
        y = x * 2
        with inside():
            z = y.sin()
        return y, z

    compiled = cdynamo.optimize(function)
    for _ in range(2):
        x = leaf(3)
        with mode():
            got, expected = compiled(x), function(x)
        for a, b in zip(got, expected):
            assert_close(a, b)
            assert a.is_inference() == b.is_inference() and a.is_leaf == b.is_leaf
        if expected[0].requires_grad:
            ours = torch.autograd.grad(got[0].sum(), x)
            assert_close(ours[0], torch.full((3,), 2.0))


def test_set_grad_enabled_and_decorators():
    @torch.no_grad()
    def scale(x):
        return x.abs().max()

    def function(x, on):
        with torch.set_grad_enabled(on):
            y = x * scale(x)
        return y

    for on in (True, False):
        check(lambda x: function(x, on), leaf(3))


def test_inference_tensor_as_an_input():
    with torch.inference_mode():
        constant = torch.ones(3)
    function = lambda x, c: x + c
    check(function, leaf(3), constant)
    x = leaf(3)
    for f in (function, cdynamo.optimize(lambda x, c: x * c)):
        with contextlib.suppress(RuntimeError):
            f(x, constant)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        cdynamo.optimize(lambda x, c: x * c)(x, constant)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * ctx.factor * 100 + 0 * x, None


def test_autograd_function_inside():
    check(lambda x: Scaled.apply(x.sin(), 3.0) * x, leaf(4))


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def test_autograd_function_with_setup_context():
    check(lambda x: StraightThrough.apply(x * 3).square(), leaf(4))


def test_compiled_function_inside_an_autograd_function():
    inner = cdynamo.optimize(lambda x: x * x)

    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return inner(x)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return inner(gradient) * x

    x = leaf(3)
    Outer.apply(x).sum().backward()
    assert_close(x.grad, x.detach())


def test_backward_inside():
    def step(model, x):
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    eager, compiled = nn.Linear(3, 2), nn.Linear(3, 2)
    compiled.load_state_dict(eager.state_dict())
    x, fast = torch.randn(4, 3), cdynamo.optimize(step)
    for _ in range(3):
        assert_close(fast(compiled, x), step(eager, x))
    assert_same_gradients(compiled, eager)


def test_grad_inside():
    def function(x):
        y = (x**3).sum()
        (gradient,) = torch.autograd.grad(y, x, create_graph=True)
        return gradient * 2

    check(function, leaf(4))


def test_autocast_around_and_inside():
    eager, compiled = twins(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))
    x = torch.randn(5, 8)
    for model in (eager, compiled):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
        assert out.dtype == torch.bfloat16
        out.float().square().sum().backward()
    for a, b in zip(compiled.parameters(), eager.parameters()):
        torch.testing.assert_close(a.grad, b.grad, rtol=5e-2, atol=5e-2)


# ---- errors --------------------------------------------------------------------------------------------------------


def both_raise(make, match=None):
    """`make(f)` raises the same type for the function as for the compiled one."""
    kinds = []
    for wrap in (lambda f: f, cdynamo.optimize):
        with pytest.raises(Exception) as raised:
            make(wrap)
        kinds.append(type(raised.value))
        if match:
            assert match in str(raised.value)
    assert kinds[0] is kinds[1], kinds


def test_integers_have_no_gradient():
    both_raise(lambda wrap: wrap(lambda x: x * 2)(torch.arange(3)).sum().backward(), "does not require grad")
    both_raise(lambda wrap: wrap(lambda x: x.requires_grad_())(torch.arange(3)))
    both_raise(lambda wrap: wrap(lambda x: (x > 0).sum())(leaf(3)).backward(), "does not require grad")


def backward_twice(wrap, f, *others):
    x = leaf(3)
    out = wrap(f)(x, *others)
    out.sum().backward()
    try:
        out.sum().backward()
    except RuntimeError as error:
        return str(error)[:40]
    return x.grad


@pytest.mark.parametrize("f", [
    lambda x, y: x % 3, lambda x, y: torch.fmod(x, 3), lambda x, y: x % y, lambda x, y: torch.fmod(y, x),
    lambda x, y: torch.addcmul(x, y, y), lambda x, y: torch.addcmul(y, x, y), lambda x, y: torch.addcdiv(x, y, y, value=2),
    lambda x, y: x + y, lambda x, y: x * 3, lambda x, y: (x + 1) % 2 - 1,
])  # fmt: skip
def test_what_saves_nothing_goes_back_twice(f):
    y = torch.tensor([0.5, 1.5, -2.0])
    compiled, eager = backward_twice(cdynamo.optimize, f, y), backward_twice(lambda f: f, f, y)
    if isinstance(eager, str):
        assert compiled == eager
    else:
        assert_close(compiled, eager)


@pytest.mark.parametrize("shape", [(0, 3), (2, 3)])
def test_what_eager_does_not_save_may_be_written_to(shape):
    """Of a padded tensor the result is saved, whatever the sizes."""

    def gradient(wrap):
        x = torch.ones(shape, dtype=torch.float64, requires_grad=True)
        out = wrap(lambda x: torch.nn.functional.pad(x, (1, 0, 0, 1)) ** 2)(x)
        x.detach().add_(1)
        out.sum().backward()
        return x.grad

    assert_close(gradient(cdynamo.optimize), gradient(lambda f: f))


def test_backward_twice_without_retain_graph():
    def twice(wrap):
        out = wrap(lambda x: x.exp())(leaf(3)).sum()
        out.backward()
        out.backward()

    both_raise(twice, "second time")


@pytest.mark.parametrize("which", ["input", "output"])
def test_saved_tensor_that_was_written_to(which):
    def write(wrap):
        x = leaf(3)
        y = x * 1
        out = wrap(lambda y: (y * y).exp())(y)
        (y if which == "input" else out).data.add_(0)  # .data goes unseen
        (y if which == "input" else out).add_(1)
        out.sum().backward()

    both_raise(write, "modified by an inplace operation")


def test_gradient_of_a_wrong_shape():
    both_raise(lambda wrap: wrap(lambda x: x * 2)(leaf(3)).backward(torch.ones(4)), "shape")
    both_raise(lambda wrap: wrap(lambda x: x * 2)(leaf(3)).backward(), "scalar outputs")


def test_nan_under_anomaly_mode():
    def compute(wrap):
        x = torch.zeros(3, requires_grad=True)
        with torch.autograd.detect_anomaly(check_nan=True):
            (wrap(lambda x: x.sqrt() * 0)(x)).sum().backward()

    with pytest.warns(UserWarning):
        both_raise(compute, "nan values")


def test_anomaly_mode_without_nan():
    with pytest.warns(UserWarning), torch.autograd.detect_anomaly():
        x = leaf(3)
        cdynamo.optimize(lambda x: x.exp())(x).sum().backward()
    assert_close(x.grad, x.exp().detach())


def test_unused_input():
    both_raise(lambda wrap: _grad_of_unused(wrap), "not have been used")


def _grad_of_unused(wrap):
    x, y = leaf(3), leaf(3)
    return torch.autograd.grad(wrap(lambda x, y: x * 2)(x, y).sum(), [x, y])


def test_an_error_of_the_program_in_training():
    both_raise(lambda wrap: wrap(lambda x, y: x @ y)(leaf(3, 4), leaf(3, 4)))
    both_raise(lambda wrap: wrap(lambda w, i: F.embedding(i, w).sum())(leaf(3, 4), torch.tensor([5])))


# ---- checkpointing, lifetimes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_inside(reentrant):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Dropout(0.3)) for _ in range(3))

        def forward(self, x):
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=reentrant)
            return x.sum()

    eager, compiled = twins(Model())
    x = leaf(4, 6)
    for model in (eager, compiled):
        torch.manual_seed(3)
        model(x).backward()
    assert_same_gradients(compiled, eager)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_of_a_compiled_module(reentrant):
    eager, compiled = twins(nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 6)))
    x = leaf(4, 6)
    for model in (eager, compiled):
        checkpoint(model, x, use_reentrant=reentrant).square().sum().backward()
    assert_same_gradients(compiled, eager)


def test_checkpoint_sequential():
    eager, compiled = twins(nn.Sequential(*(nn.Linear(6, 6) for _ in range(4))))
    x = leaf(4, 6)
    checkpoint_sequential(eager, 2, x, use_reentrant=False).sum().backward()
    cdynamo.optimize(lambda model, x: checkpoint_sequential(model, 2, x, use_reentrant=False))(
        compiled, x
    ).sum().backward()
    assert_same_gradients(compiled, eager)


@pytest.mark.native
def test_checkpoint_keeps_less():
    """What lies inside of a checkpoint is not kept for the backward."""

    def deep(x, w):
        for _ in range(6):
            x = torch.tanh(x @ w)
        return x

    def kept_bytes(function):
        x, w = leaf(64, 8), leaf(8, 8)
        out = function(x, w)
        kept = out.grad_fn.saved_tensors
        out.sum().backward()
        mine = {
            t.data_ptr(): t.nbytes for t in kept if t.data_ptr() not in (x.data_ptr(), w.data_ptr(), out.data_ptr())
        }
        return sum(mine.values())

    assert kept_bytes(cdynamo.optimize(deep)) >= 5 * 64 * 8 * 4
    assert kept_bytes(cdynamo.optimize(lambda x, w: checkpoint(deep, x, w, use_reentrant=False))) == 0


@pytest.mark.native
def test_saved_tensors_are_freed_by_backward():
    compiled = cdynamo.optimize(lambda x: x.sin().exp())
    x = leaf(1000)
    out = compiled(x)
    node = weakref.ref(out.grad_fn)
    out.sum().backward()
    with pytest.raises(RuntimeError):
        out.grad_fn.saved_tensors  # noqa: B018
    del out
    gc.collect()
    assert node() is None


def test_results_without_backward_are_freed():
    compiled = cdynamo.optimize(lambda x: x.sin().exp())
    x = leaf(10)
    out = compiled(x)
    gone = weakref.ref(out)
    del out
    assert gone() is None
    del x
    gc.collect()


def test_second_derivative_through_dropout_draws_once():
    def f(x):
        return torch.nn.functional.dropout(x.pow(3), 0.5).sum()

    x = torch.linspace(1, 2, 32, dtype=torch.double, requires_grad=True)

    def second(fn):
        torch.manual_seed(3)
        (first,) = torch.autograd.grad(fn(x), x, create_graph=True)
        return first.detach(), torch.autograd.grad(first.sum(), x)[0]

    for got, expected in zip(second(cdynamo.optimize(f)), second(f)):
        torch.testing.assert_close(got, expected)


@pytest.mark.native
def test_inputs_that_were_written_to_are_not_read_again_by_create_graph():
    x = torch.ones(3, requires_grad=True)
    y = torch.full((3,), 2.0)
    loss = cdynamo.optimize(lambda x, y: (x * (y + 1)).sum())(x, y)
    y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, x, create_graph=True)


def second_derivative(out, x):
    (first,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return first.detach(), torch.autograd.grad(first.sum(), x)[0]


def test_inputs_that_higher_derivatives_do_not_read_may_be_written_to():
    """Running statistics move at each call, as in a gradient penalty of a discriminator with batch norm."""

    def function(x, mean, var):
        return F.batch_norm(x, mean, var, training=True).exp()

    x = leaf(6, 3, dtype=torch.float64)
    results = []
    for f in (function, cdynamo.optimize(function)):
        mean, var = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
        out = f(x, mean, var)
        f(x.detach() * 2, mean, var)
        results.append(second_derivative(out, x))
        batch = torch.stack([torch.ones_like(out), out.detach()])
        results[-1] += torch.autograd.grad(f(x, mean, var), x, batch, is_grads_batched=True)
    for got, expected in zip(*results):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("case", ["after", "before", "a part", "a view"])
def test_higher_derivatives_read_what_was_there_before_the_function_wrote_to_it(case):
    def function(x, count):
        other = count[:3] if case == "a view" else count
        if case == "before":
            count.add_(1)
        out = x * x * (other[:3] + 1)
        (count[1:] if case == "a part" else count).add_(1)
        return out

    x, results = leaf(3, dtype=torch.float64), []
    for f in (function, cdynamo.optimize(function)):
        count = torch.arange(8, dtype=torch.float64)[::2]
        for _ in range(2):
            results.append((*second_derivative(f(x, count), x), count.clone()))
    for got, expected in zip(results[2:], results):
        for a, b in zip(got, expected):
            torch.testing.assert_close(a, b)


def test_a_backward_without_retain_graph_lets_go_of_the_inputs():
    x = torch.ones(3, requires_grad=True)
    y = torch.full((3,), 2.0)
    alive = weakref.ref(y)
    loss = cdynamo.optimize(lambda x, y: (x + y).sum())(x, y)
    del y
    loss.backward()
    assert alive() is None


def test_batched_gradients():
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.LayerNorm(5), nn.Linear(5, 2))
    compiled = cdynamo.optimize(model)
    x = torch.randn(3, requires_grad=True)
    jacobian = torch.autograd.functional.jacobian
    expected = jacobian(model, x)
    torch.testing.assert_close(jacobian(compiled, x, vectorize=True), expected)
    out = compiled(x)
    (batched,) = torch.autograd.grad(out, x, torch.eye(2), is_grads_batched=True)
    torch.testing.assert_close(batched, expected)


@pytest.mark.parametrize("case", ["transposed convolution", "softmax of nothing", "flip", "statistics"])
def test_batched_gradients_of_operators(case):
    stride, padding, more, dilation = (3, 2), (1, 2), (2, 3), (4, 4)
    function, shapes = {
        "transposed convolution": (
            lambda x, w: F.conv_transpose2d(x, w, None, stride, padding, more, 1, dilation),
            [(1, 2, 4, 4), (2, 2, 4, 5)],
        ),
        "softmax of nothing": (lambda x: F.softmax(x, -1), [(5, 0, 0)]),
        "flip": (lambda x: x.flip(0, 1)[:, 1:] * x[:, 1:], [(3, 4)]),
        "statistics": (
            lambda x, m, v: F.batch_norm(x, m.detach(), v.detach().abs(), training=True),
            [(4, 3), (3,), (3,)],
        ),
    }[case]
    inputs = [leaf(*shape, dtype=torch.float64) for shape in shapes]
    gradients = []
    for f in (function, cdynamo.optimize(function)):
        out = f(*inputs)
        batch = torch.stack([torch.ones_like(out), out.detach()])
        gradients.append(torch.autograd.grad(out, inputs, batch, is_grads_batched=True, allow_unused=True))
    for got, expected in zip(*reversed(gradients)):
        torch.testing.assert_close(got, expected)


@pytest.mark.native
def test_batched_gradients_refuse_inputs_that_were_written_to():
    x, y = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
    out = cdynamo.optimize(lambda x, y: x * (y + 1))(x, y)
    y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(out, x, torch.eye(3), is_grads_batched=True)


def test_grad_mode_that_is_turned_on_after_a_graph_break_within_no_grad():
    def f(x):
        y = x * x
        with torch.no_grad():
            shout(end="")
        return y.sin(), y[0]

    check(f, leaf(3))


def test_grad_mode_that_is_turned_on_within_a_call_under_no_grad():
    def f(x):
        with torch.enable_grad():
            return x.sin(), x[1:]

    compiled = cdynamo.optimize(f)
    for _ in range(2):
        x = leaf(3)
        with torch.no_grad():
            sine, part = compiled(x)
            assert not torch.is_grad_enabled()
        assert sine.requires_grad and part.requires_grad
        (gradient,) = torch.autograd.grad(sine.sum() + part.sum(), x)
        torch.testing.assert_close(gradient, x.detach().cos() + torch.tensor([0.0, 1.0, 1.0]))


def test_writing_under_no_grad_leaves_the_history():
    def f(x):
        y = x * x
        with torch.no_grad():
            y.mul_(3)
        return y, y.sin()

    check(f, leaf(3))


def test_what_is_overwritten_has_a_gradient_of_zeros():
    def f(x, y):
        z = x * 2
        z.copy_(y)
        return z

    check(f, leaf(3), leaf(3))
    check(f, leaf(3), torch.ones(3))
    check(lambda x, index: x.gather(0, index), leaf(1), torch.zeros(0, dtype=torch.int64))


def test_running_sum_of_nothing():
    check(lambda x: (x.view(-1)[:-1], x.view(-1).cumsum(0)), leaf(4, 0))
    check(lambda x: (x.view(-1)[:-1], x.view(-1).cumsum(0)), leaf(1, 3))


def test_what_only_comes_in_has_no_part_in_the_backward():
    """Results that are kept from call to call have histories whose saved tensors are gone."""
    log = []
    state = types.SimpleNamespace(hidden=None)

    def kept_in_a_list(x):
        y = x.sin()
        log.append(y)
        return y * 2

    def kept_in_an_attribute(x):
        had = state.hidden
        state.hidden = x.sin()
        return state.hidden * (2 if had is None else 3)

    for function in (kept_in_a_list, kept_in_an_attribute):
        compiled = cdynamo.optimize(function)
        for factor in (2, 2 if function is kept_in_a_list else 3):
            x = leaf(3)
            compiled(x).sum().backward()
            torch.testing.assert_close(x.grad, factor * x.detach().cos())

    seen = []
    x, unused = leaf(3), leaf(3)
    unused.register_hook(lambda g: seen.append(g * 1))
    cdynamo.optimize(lambda x, unused: (x * x, unused.shape[0]))(x, unused)[0].sum().backward()
    assert seen == [] and unused.grad is None


SUMMED = [
    lambda x, w: x.sum(),
    lambda x, w: (x + w).sum(),
    lambda x, w: x.T.sum() * 2,
    lambda x, w: x.reshape(-1).clone().sum(),
    lambda x, w: x.sum(0).sin().sum(),
    lambda x, w: (x + x).sum(),
    lambda x, w: (w - x).sum(),
    lambda x, w: (x * w).sum(),
    lambda x, w: x.mean(),
    lambda x, w: x[0].sum(),
]


@pytest.mark.parametrize("loss", SUMMED)
def test_a_gradient_of_one_number_has_eagers_strides(loss):
    def gradient(x, w):
        return torch.autograd.grad(loss(x, w), x)[0]

    x, w = torch.rand(2, 3, requires_grad=True), torch.rand(2, 3)
    got, expected = cdynamo.optimize(gradient)(x, w), gradient(x, w)
    torch.testing.assert_close(got, expected)
    assert got.stride() == expected.stride()


@pytest.mark.parametrize("backend", ["native", "eager", lambda gm, inputs: gm.forward])
def test_what_is_left_to_python_beside_sizes_that_change(backend):
    def gradient(x):
        if x.sum().item():
            pass
        x.retain_grad()
        return torch.autograd.grad(x.sin().sum(), x)[0]

    compiled = cdynamo.optimize(gradient, backend=backend)
    for rows in (0, 2, 1, 4, 2):
        x = torch.arange(3.0 * rows).reshape(rows, 3).T.detach().clone().requires_grad_()
        torch.testing.assert_close(compiled(x), gradient(x))


def test_gradients_by_what_a_graph_makes_are_the_engine_s_behind_a_break():
    def gradients(x):
        y = x.t().cumsum(0)
        first = torch.autograd.grad(y.sum(), y, retain_graph=True)[0]
        (second,) = torch.autograd.grad(outputs=(y * y).sum() + y.sum(), inputs=[y], is_grads_batched=False)
        return first, second, first.stride()

    x = torch.rand(2, 3, requires_grad=True)
    got, expected = cdynamo.optimize(gradients)(x), gradients(x)
    torch.testing.assert_close(got[:2], expected[:2])
    assert got[2] == expected[2]


@pytest.mark.native
def test_a_result_that_is_added_to_its_operand_keeps_nothing_alive():
    def layer(h, w):
        return (h * w).sin()

    compiled = cdynamo.optimize(layer)
    w = torch.rand(3, requires_grad=True)

    def step():
        h = torch.rand(2, 3) * w
        h += compiled(h, w)  # reads h as it was; its node is a part of h's history now
        return weakref.ref(h)

    refs = [step() for _ in range(3)]
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3

    def twice(layer):
        h = torch.rand(2, 3, generator=torch.Generator().manual_seed(0)) * w
        h = h + layer(h, w)
        (once,) = torch.autograd.grad(h.sum(), w, create_graph=True)
        return once, *torch.autograd.grad(once.sum(), w)

    torch.testing.assert_close(twice(compiled), twice(layer))


def test_a_leaf_that_is_turned_after_a_write_to_what_was_computed_from_it():
    def turned(x):
        x.data.add_(1)
        y = x + 3
        y += x * 2
        with torch.no_grad():
            x.t_()
        return x

    compiled = cdynamo.optimize(turned)
    for _ in range(2):
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        compiled(x).sum().backward()
        assert torch.equal(x.grad, torch.ones(3, 2))
