"""Operators that write to their arguments (torch.library) within one graph, against eager: results, arguments, gradients."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch.library import custom_op  # noqa: E402

Tensor = torch.Tensor


@custom_op("cdynamo_writes::increment", mutates_args=("x",))
def increment(x: Tensor) -> None:
    x += 1


@custom_op("cdynamo_writes::scale_into", mutates_args=("out",))
def scale_into(x: Tensor, out: Tensor, factor: float) -> Tensor:
    out.copy_(x * factor)
    return x - factor


scale_into.register_fake(lambda x, out, factor: torch.empty_like(x))


@custom_op("cdynamo_writes::update", mutates_args=("a", "b"))
def update(a: Tensor, b: Tensor, c: Tensor | None = None) -> None:
    a.add_(1)
    b.mul_(2)
    if c is not None:
        b.add_(c)


@custom_op("cdynamo_writes::scale_all", mutates_args=("tensors",))
def scale_all(tensors: list[Tensor], factor: float) -> None:
    for tensor in tensors:
        tensor.mul_(factor)


@custom_op("cdynamo_writes::shrink", mutates_args=("x",))
def shrink(x: Tensor) -> None:
    x.resize_(1)


LIBRARY = torch.library.Library("cdynamo_writes", "FRAGMENT")
LIBRARY.define("add_number(Tensor(a!) x, int n) -> ()")
LIBRARY.impl("add_number", lambda x, n: [x.add_(n), None][1], "CPU")
LIBRARY.define("fill_out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
LIBRARY.impl("fill_out", lambda x, *, out: out.copy_(x), "CompositeExplicitAutograd")


def of_a_temporary(x):
    y = x * 2
    increment(y)
    return y * 3


def of_an_argument(x):
    increment(x)
    first = x + 1
    torch.ops.cdynamo_writes.increment(x)
    torch.ops.cdynamo_writes.increment.default(x)
    return first, x


def result_and_write(x):
    out = torch.empty_like(x)
    return scale_into(x, out, 2.5), out


def optional_and_list_arguments(x):
    a, b = x.clone(), x * 2
    update(a, b)
    update(a, b, x)
    scale_all([a, b], 3.0)
    return a, b


def through_views(x):
    y = x.clone()
    flat = y.T
    increment(y[0])
    increment(y.t())
    increment(y[:, ::2])
    increment(x[1])
    return y, flat * 2


def returns_its_argument(x):
    y = torch.zeros_like(x)
    z = torch.ops.cdynamo_writes.fill_out(x, out=y)
    z.add_(1)
    return y, z, y is z


def one_argument_twice(x):
    update(x, x)
    return x


def strided_target(x):
    out = torch.zeros(x.shape[1], x.shape[0]).t()
    scale_into(x, out, 1.5)
    return out


def operators_in_place(x):
    y, places = x.clone(), torch.tensor([0, 3])
    same = y.put_(places, torch.tensor([1.0, 2.0])) is y
    y[:, ::2].put_(places, torch.tensor([5.0, 6.0]))
    torch.ops.aten.put_(y, torch.tensor([1]), torch.tensor([7.0]))
    x.masked_scatter_(x > 0, torch.arange(24.0))
    return y, same, x.renorm_(2, 0, 1.0)


def an_operator_of_lists(x):
    y, infinite = x.clone(), torch.zeros(1)
    torch._amp_foreach_non_finite_check_and_unscale_([y, x], infinite, torch.full((1,), 0.5))
    return y, infinite


FUNCTIONS = [
    operators_in_place,
    an_operator_of_lists,
    of_a_temporary,
    of_an_argument,
    result_and_write,
    optional_and_list_arguments,
    through_views,
    returns_its_argument,
    one_argument_twice,
    strided_target,
]


def agree(function, fast, *args):
    """Calls both on copies of the arguments; results and arguments are equal afterwards."""
    theirs, ours = [a.clone() for a in args], [a.clone() for a in args]
    torch.testing.assert_close(fast(*ours), function(*theirs), check_stride=True)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_one_graph(function):
    fast = cdynamo.optimize(function, fullgraph=True)
    for rows in (3, 3, 5, 2):
        agree(function, fast, torch.randn(rows, 4))
    agree(function, fast, torch.randn(4, 3).t())


def test_a_number_that_changes():
    def function(x, n):
        torch.ops.cdynamo_writes.add_number(x, n)
        return x * n

    fast = cdynamo.optimize(function, fullgraph=True)
    for n in (1, 2, 5, 5):
        x = torch.randn(4)
        y = x.clone()
        torch.testing.assert_close(fast(x, n), function(y, n))
        torch.testing.assert_close(x, y)


def test_gradients_of_the_rest():
    def function(x):
        kept, mask = x.detach().clone(), torch.zeros(x.shape)
        increment(mask)
        scale_into(x.detach(), mask, 2.0)
        with torch.no_grad():
            increment(kept)
        return (x.sin() * mask * kept).sum()

    fast = cdynamo.optimize(function, fullgraph=True)
    for rows in (3, 3, 5):
        x = torch.randn(rows, 4, requires_grad=True)
        torch.testing.assert_close(fast(x), function(x))
        torch.testing.assert_close(torch.autograd.grad(fast(x), x), torch.autograd.grad(function(x), x))


def test_arguments_of_which_one_is_a_view_of_the_other():
    def function(x, y):
        update(x, y)
        return x + y

    fast = cdynamo.optimize(function)
    agree(function, fast, torch.randn(3, 4), torch.randn(3, 4))
    for which in (slice(0, 2), slice(None)):
        a, b = torch.arange(12.0).view(3, 4), torch.arange(12.0).view(3, 4)
        torch.testing.assert_close(fast(a, a[which][0]), function(b, b[which][0]))
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (y := x * 1, update(y[0], y[1]), y)[-1],  # shares memory
        lambda x: (y := x.clone().requires_grad_() * 2, increment(y), y.detach())[-1],
        lambda x: (y := x.clone(), increment(y.data), y)[-1],
        lambda x: (y := torch.complex(x, x), increment(y), torch.view_as_real(y))[-1],
        lambda x: (y := x.clone(), y.swapaxes_(0, 1), y)[-1],  # other sizes
        lambda x: (y := x.clone(), y.set_(x), y.add_(1), x * 1)[-1],  # other memory
    ],
)
def test_what_breaks_agrees(function):
    fast = cdynamo.optimize(function)
    for _ in range(2):
        agree(function, fast, torch.randn(3, 4))


def test_a_gradient_through_a_write_is_eagers():
    def function(x):
        y = x * 2
        increment(y)
        return (y * y.detach()).sum()

    fast = cdynamo.optimize(function)
    x = torch.randn(3, 4, requires_grad=True)
    torch.testing.assert_close(torch.autograd.grad(fast(x), x), torch.autograd.grad(function(x), x))


def test_what_changes_its_argument_otherwise_is_left_to_python():
    def function(x):
        y = x.clone()
        shrink(y)
        return y * 2

    fast = cdynamo.optimize(function)
    for _ in range(2):
        x = torch.randn(5)
        torch.testing.assert_close(fast(x), function(x))
