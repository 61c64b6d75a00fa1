"""Classes that captured code makes, with tensors: Functions, modules, class attributes, under each backend."""

from __future__ import annotations

import dataclasses
import gc
import weakref

import pytest

import cdynamo

torch = pytest.importorskip("torch")


def own_function(x):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, k=2):
            ctx.save_for_backward(a)
            return a * a * a * k

        @staticmethod
        def backward(ctx, grad):
            (a,) = ctx.saved_tensors
            return grad * a * 5, None

    return Cube.apply(x).sum()


def function_with_a_closure(x):
    scale = x.shape[0] + 0.5
    weight = x.detach() + 1

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * scale * weight

        @staticmethod
        def backward(ctx, grad):
            (a,) = ctx.saved_tensors
            return grad * scale * 5 * a

    return Scaled.apply(x).sum()


def own_module(x):
    class Scale(torch.nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k

        def forward(self, y):
            return y * self.k + x

    return torch.nn.Sequential(Scale(3), torch.nn.ReLU(), Scale(-1))(x).sum()


def module_with_parameters(x):
    class Affine(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))
            self.register_buffer("bias", torch.ones(3) * 2)

        def forward(self, y):
            return y * self.weight + self.bias

    return Affine()(x).sum()


def tensors_in_the_class(x):
    class Holder:
        doubled = x * 2
        items = [x]
        rows = x.shape[0]

        def total(self):
            return self.doubled + self.items[0] * self.rows

    Holder.doubled = Holder.doubled + 1
    holder = Holder()
    holder.items = [*holder.items, 2]
    return (holder.total() * holder.items[1]).sum()


def written_tensor(x):
    class Holder:
        total = torch.zeros(3)

        @classmethod
        def add(cls, row):
            cls.total += row

    for row in x:
        Holder.add(row)
    return (Holder.total * x).sum()


def in_a_loop(x):
    for k in range(3):

        class Shift:
            @staticmethod
            def of(y):
                return y + k  # noqa: B023

        x = Shift.of(x)
    return x.sum()


def data_class(x):
    @dataclasses.dataclass
    class Pair:
        first: torch.Tensor
        second: torch.Tensor | None = None
        scale: float = 0.5

    pair = Pair(x * 2)
    pair.second = pair.first + pair.scale
    return (pair.first * pair.second).sum()


def branch_on_data(x):
    class Holder:
        k = 1

    if x.sum() > 5:
        Holder.k = 2
    return (x * Holder.k).sum()


def checkpointed(x):
    class Counted:
        calls = 0

        def run(self, y):
            Counted.calls += 1
            return y.sin() * Counted.calls

    result = torch.utils.checkpoint.checkpoint(Counted().run, x, use_reentrant=False)
    return (result * Counted.calls).sum()


def tensor_class(x):
    class Mine(torch.Tensor):
        pass

    return x.as_subclass(Mine).sum().as_subclass(torch.Tensor)


def graph_break_in_a_method(x):
    class Two:
        def run(self, y):
            y = y * 2
            cdynamo.graph_break()
            return y + x

    return Two().run(x).sum()


PROGRAMS = [
    own_function, own_module, tensors_in_the_class, written_tensor, in_a_loop, data_class, function_with_a_closure,
    module_with_parameters, branch_on_data, checkpointed, tensor_class, graph_break_in_a_method,
]  # fmt: skip
IN_ONE_GRAPH = PROGRAMS[:6]


def value_and_gradient(fn, x):
    x = x.clone().requires_grad_()
    result = fn(x)
    result.backward()
    return result.detach(), x.grad


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_values_and_gradients_are_eagers(fn, backend):
    compiled = cdynamo.optimize(fn, backend=backend, fullgraph=fn in IN_ONE_GRAPH)
    for rows in (2, 2, 4, 5):
        x = torch.arange(3.0 * rows).reshape(rows, 3) / 4
        torch.testing.assert_close(value_and_gradient(compiled, x), value_and_gradient(fn, x))


@pytest.mark.native  # a backend in Python would call the class without its closure
def test_a_function_with_a_closure_is_in_the_graph():
    compiled = cdynamo.optimize(function_with_a_closure, fullgraph=True)
    x = torch.arange(6.0).reshape(2, 3)
    for scale in (1, 2):
        expected = value_and_gradient(function_with_a_closure, x * scale)
        torch.testing.assert_close(value_and_gradient(compiled, x * scale), expected)


# ---- classes die when the program lets go of them


def made_after_a_reference(x, made):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    made.append(weakref.ref(Own))
    return Own.apply(x)


def forward_raises(x, made):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return [][a.shape[0]]

    made.append(weakref.ref(Own))
    try:
        return Own.apply(x)
    except IndexError:
        return x * 2


def call_raises_later(x, made):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

    made.append(weakref.ref(Own))
    y = Own.apply(x)
    made.append(y[7])
    return y


def under_transforms(x, made):
    class Own(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(q):
            return q * 3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    made.append(weakref.ref(Own))
    y = torch.vmap(torch.func.grad(lambda q: Own.apply(q).sum()))(x.detach())
    cdynamo.graph_break()
    return Own.apply(x) + y


@pytest.mark.parametrize("backend", ["native", "eager", lambda graph, inputs: graph.forward])
@pytest.mark.parametrize("fn", [made_after_a_reference, forward_raises, call_raises_later, under_transforms])
def test_functions_made_inside_are_freed(fn, backend):
    compiled = cdynamo.optimize(fn, backend=backend)
    for n in range(12):
        made, x = [], torch.ones(3, requires_grad=bool(n % 2))
        try:
            compiled(x, made).sum().backward() if n % 2 else compiled(x, made)
        except IndexError:
            assert fn is call_raises_later
        del x
        gc.collect()
        assert [each() for each in made] == [None], n


def class_in_the_graph(x):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    return Own.apply(x).sum()


@pytest.mark.parametrize("backend", ["native", "eager", lambda graph, inputs: graph.forward])
def test_a_class_of_the_graph_lives_as_long_as_that(backend):
    compiled = cdynamo.optimize(class_in_the_graph, backend=backend, fullgraph=True)
    for _ in range(3):
        expected = value_and_gradient(class_in_the_graph, torch.ones(3))
        torch.testing.assert_close(value_and_gradient(compiled, torch.ones(3)), expected)
        gc.collect()
    del compiled
    cdynamo.reset()
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each).__name__ == "FunctionMeta" and each.__name__ == "Own"]
