"""Backends that are Python callables: nothing of theirs is captured, what fails is named, every program has a graph."""

from __future__ import annotations

import gc
import logging

import numpy as np
import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402


class Recording:
    """A backend that runs what it is given, and keeps it."""

    def __init__(self) -> None:
        self.given: list = []
        self.inputs: list = []

    def __call__(self, module, example_inputs):
        self.given.append(module)
        self.inputs.append(example_inputs)
        return module.forward


@pytest.fixture
def recording() -> Recording:
    return Recording()


def in_three_parts(x):
    x = x + 1
    cdynamo.graph_break()
    x = helper(x) * 2
    cdynamo.graph_break()
    return x - 3


def helper(x):
    return x.sin()


# ---- nothing of a backend's is captured


def test_each_part_is_compiled_once(recording):
    fast = cdynamo.optimize(in_three_parts, backend=recording)
    x = torch.ones(3)
    for _ in range(3):
        assert torch.equal(fast(x), in_three_parts(x))
    assert len(recording.given) == 3


@pytest.mark.parametrize("returned", ["forward", "module", "function", "interpreter"])
def test_what_a_backend_returns_runs_in_plain_python(returned):
    given = []

    def backend(module, example_inputs):
        given.append(module)

        def run(*inputs):
            return loud(module, inputs)

        choices = {
            "forward": module.forward,
            "module": module,
            "function": run,
            "interpreter": torch.fx.Interpreter(module).run,
        }
        return choices[returned]

    def loud(module, inputs):
        cdynamo.graph_break()  # of no graph
        return helper_of_backend(module, inputs)

    def helper_of_backend(module, inputs):
        return tuple(value + 0 for value in module(*inputs))

    fast = cdynamo.optimize(in_three_parts, backend=backend)
    x = torch.ones(3)
    for _ in range(2):
        assert torch.equal(fast(x), in_three_parts(x))
    assert len(given) == 3


def test_what_a_backend_does_while_it_compiles_runs_in_plain_python():
    given = []

    def backend(module, example_inputs):
        given.append(module)
        helper(torch.ones(2))
        nn.Linear(2, 2)(torch.ones(1, 2))
        return module.forward

    x = torch.ones(3)
    assert torch.equal(cdynamo.optimize(in_three_parts, backend=backend)(x), in_three_parts(x))
    assert len(given) == 3


def test_calls_with_new_sizes_are_compiled_in_plain_python(recording):
    fast = cdynamo.optimize(in_three_parts, backend=recording, dynamic=True)
    for size in (3, 4, 5, 3):
        x = torch.ones(size)
        assert torch.equal(fast(x), in_three_parts(x))
    assert len(recording.given) == 9


def test_functions_that_a_backend_optimizes_itself_are_compiled(recording, counts):
    inner = Recording()

    def backend(module, example_inputs):
        recording(module, example_inputs)
        scaled = cdynamo.optimize(lambda value: helper(value) * 2, backend=inner)
        return lambda *inputs: [scaled(value) for value in module(*inputs)]

    fast = cdynamo.optimize(lambda x: x + 1, backend=backend)
    x = torch.ones(3)
    for _ in range(2):
        assert torch.equal(fast(x), helper(x + 1) * 2)
    assert len(recording.given) == 1 and len(inner.given) == 1


def test_modules_under_a_backend_with_breaks(recording):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            x = self.first(x)
            cdynamo.graph_break()
            return self.second(x).relu()

    model = nn.Sequential(Block(), Block())
    fast = cdynamo.optimize(model, backend=recording)
    x = torch.randn(2, 4)
    expected = model(x)
    for _ in range(3):
        assert torch.equal(fast(x), expected)
    assert len(recording.given) <= 6
    fast(x).sum().backward()
    got = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(got, model.parameters()))


# ---- a backend that fails


class Refusal(Exception):
    pass


def refusing(module, example_inputs):
    raise Refusal("not this one")


def returns_nothing(module, example_inputs):
    return None


def compiles_itself(module, example_inputs):
    return cdynamo.optimize(module, backend=compiles_itself)


def compiles_itself_at_once(module, example_inputs):
    cdynamo.optimize(module, backend=compiles_itself_at_once)(*example_inputs)
    return module.forward


FAILING = [
    (refusing, "refusing", Refusal),
    (returns_nothing, "returns_nothing", TypeError),
    (compiles_itself, "compiles_itself", RecursionError),
    (compiles_itself_at_once, "compiles_itself_at_once", RecursionError),
]


@pytest.mark.parametrize("suppress", [None, False])
@pytest.mark.parametrize("backend, name, cause", FAILING)
def test_a_backend_that_fails_is_named(backend, name, cause, suppress):
    cdynamo.config.suppress_errors = suppress
    for value in (torch.ones(2), torch.ones(2, requires_grad=True)):
        with pytest.raises(
            cdynamo.BackendCompilerFailed, match=f"backend='{name}' raised:\n{cause.__name__}: "
        ) as info:
            cdynamo.optimize(lambda x: x + 1, backend=backend)(value)
        assert info.value.backend_name == name and isinstance(info.value.inner_exception, cause)


@pytest.mark.parametrize("backend, name, cause", FAILING)
def test_a_backend_that_fails_is_logged_where_errors_are_suppressed(backend, name, cause, caplog):
    cdynamo.config.suppress_errors = True
    x = torch.ones(2)
    with caplog.at_level(logging.WARNING, "cdynamo"):
        assert torch.equal(cdynamo.optimize(in_three_parts, backend=backend)(x), in_three_parts(x))
    assert f"backend='{name}' raised:\n{cause.__name__}: " in caplog.text


def test_the_error_is_torch_s_too():
    import torch._dynamo

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="backend='refusing' raised"):
        cdynamo.optimize(lambda x: x + 1, backend=refusing)(torch.ones(2))


def test_a_backend_is_asked_again_after_an_error(recording):
    answers = [refusing, recording]
    fast = cdynamo.optimize(lambda x: x + 1, backend=lambda *given: answers.pop(0)(*given))
    x = torch.ones(2)
    with pytest.raises(cdynamo.BackendCompilerFailed):
        fast(x)
    assert torch.equal(fast(x), x + 1)


def test_interrupts_pass():
    def interrupted(module, example_inputs):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cdynamo.optimize(lambda x: x + 1, backend=interrupted)(torch.ones(2))


@pytest.mark.parametrize(
    "returned, error", [(lambda x: x, "gave Tensor, not a tuple or list"), (lambda x: [x, x], "gave 2 outputs")]
)
def test_outputs_of_another_form(returned, error):
    def careless(module, example_inputs):
        return returned

    with pytest.raises((TypeError, RuntimeError), match=f"what the backend careless returned {error}"):
        cdynamo.optimize(lambda x: x + 1, backend=careless)(torch.ones(1))


def test_errors_of_what_a_backend_returned_are_raised():
    def broken(module, example_inputs):
        def run(*inputs):
            raise Refusal("later")

        return run

    with pytest.raises(Refusal, match="later"):
        cdynamo.optimize(lambda x: x + 1, backend=broken)(torch.ones(2))


@pytest.mark.parametrize("backend", ["eager", Recording()])
def test_errors_of_the_program_are_raised_where_it_catches_them(backend):
    def look_up(x, index):
        try:
            return x[index]
        except IndexError:
            return x * 2

    fast = cdynamo.optimize(look_up, backend=backend)
    x, index = torch.arange(4.0), torch.tensor([1, 2])
    assert torch.equal(fast(x, index), x[index])
    assert torch.equal(fast(x, index + 5), x * 2)


# ---- every program has a graph


def listed(x):
    return [v + 1 for v in x]


def unpacked(x):
    a, b = x
    return a * b


def starred(x):
    first, *rest = x.T
    return first + torch.stack(rest).sum(0)


def zipped(x):
    return sum(a @ b for a, b in zip(x, reversed(list(x.unbind(1)))))


def iterated_after_an_operator(x):
    total = 0
    for i, row in enumerate(x * 2):
        total = total + row * i
    return total


def caught(x):
    try:
        return x[5]
    except IndexError:
        return x + 1


def without_gradient(x):
    with torch.no_grad():
        scale = (x * 2).sum()
    return x * scale


def branch_without_gradient(x):
    with torch.no_grad():
        y = x + 1
        cdynamo.graph_break()
        y = y * x
    return y * x


def written_by_methods(x):
    y = x.clone()
    y[0].fill_(3).add_(1)
    return y


@pytest.mark.parametrize("backend", ["eager", "callable", "aot_eager"])
@pytest.mark.parametrize(
    "program", [listed, unpacked, starred, zipped, iterated_after_an_operator, caught, written_by_methods]
)
def test_programs_of_torch(program, backend, recording):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    fast = cdynamo.optimize(program, backend=recording if backend == "callable" else backend)
    for _ in range(2):
        assert_same_objects(fast(x), program(x))


@pytest.mark.parametrize("backend", ["eager", "callable", "aot_eager"])
@pytest.mark.parametrize("program", [without_gradient, branch_without_gradient])
def test_gradients_where_a_part_has_none(program, backend, recording):
    fast = cdynamo.optimize(program, backend=recording if backend == "callable" else backend)
    x, y = (torch.arange(4.0).requires_grad_() for _ in range(2))
    for _ in range(2):
        fast(x).sum().backward()
        program(y).sum().backward()
        assert torch.equal(x.grad, y.grad) and torch.is_grad_enabled()


def test_the_grad_mode_of_a_call_that_fails():
    def look_up(x, index):
        with torch.no_grad():
            return x[index]

    fast = cdynamo.optimize(look_up, backend=Recording())
    with pytest.raises(IndexError):
        fast(torch.ones(3), torch.tensor(9))
    assert torch.is_grad_enabled()


def test_iteration_is_an_unbind(recording):
    cdynamo.optimize(unpacked, backend=recording)(torch.ones(2, 3))
    assert [node.target for node in recording.given[0].graph.nodes if node.op == "call_function"][0] is torch.unbind


NUMPY_PROGRAMS = {
    "transposed": lambda x: x.T @ x,
    "methods": lambda x: x.reshape(-1).copy().astype(np.float32).ravel() + x.flatten().transpose(),
    "fill": lambda x: (y := np.zeros_like(x), y.fill(2), y + x)[2],
    "iterated": lambda x: [row + 1 for row in x],
    "unpacked": lambda x: (lambda a, b: a - b)(*x),
    "scalars": lambda x: np.float32(x.sum()) * x[0, 1] + x.mean(),
    "scalar result": lambda x: x.sum() * 2,
    "several": lambda x: (x.max(), x.argmax(axis=0), x > 1, np.sqrt(x), x[::-1]),
    "dtypes": lambda x: np.ones(3, dtype=np.int16) + np.uint8(3),
    "classes for dtypes": lambda x: (x.astype(int), x.sum(dtype=np.float32), np.zeros(2, dtype=bool) | (x > 2)),
    "method of a ufunc": lambda x: np.add.reduce(x),
    "branches of where": lambda x: np.where(x > 2, x, np.float64(0.5)),
}


@pytest.mark.parametrize("backend", ["eager", "callable"])
@pytest.mark.parametrize("name", NUMPY_PROGRAMS)
def test_programs_of_numpy(name, backend, recording):
    program = NUMPY_PROGRAMS[name]
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert_same_objects(
        cdynamo.optimize(program, backend=recording if backend == "callable" else backend)(x), program(x)
    )


def assert_same_objects(got, expected):
    assert type(got) is type(expected)
    if isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for a, b in zip(got, expected):
            assert_same_objects(a, b)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert got.dtype == expected.dtype and np.array_equal(got, expected)
    else:
        assert torch.equal(got, expected) if isinstance(expected, torch.Tensor) else got == expected


def test_classes_for_dtypes(recording):
    def program(x):
        return x.to(float), x.sum(dtype=int), torch.ones(3, dtype=bool) | (x > 1)

    x = torch.arange(3.0)
    assert_same_objects(cdynamo.optimize(program, backend=recording)(x), program(x))
    assert [node.args[1] for node in recording.given[0].graph.nodes if node.target == "to"] == [torch.float64]


# ---- torch programs that pass through NumPy


def through_numpy(x):
    values = (x * 2).numpy()
    norms = np.sqrt((values**2).sum(axis=1, keepdims=True)) + np.float32(1)
    return torch.from_numpy(values / norms).sin()


def numpy_first(values):
    scaled = np.sin(values) * 2
    return torch.from_numpy(scaled) + 1


def written_through_numpy(x):
    values = x.numpy()
    values[0] = 7
    values += 1
    return x * 2


def scalars_of_numpy(x):
    values = x.numpy()
    return values.sum(), values.max(axis=0), x + float(values.mean())


@pytest.mark.parametrize("backend", ["callable", "aot_eager"])
@pytest.mark.parametrize("program", [through_numpy, numpy_first, written_through_numpy, scalars_of_numpy])
def test_torch_programs_through_numpy(program, backend, recording):
    def given():
        x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        return x.numpy() if program is numpy_first else x

    def checked(module, example_inputs):
        if backend == "callable":
            return recording(module, example_inputs)
        recording(module, example_inputs)
        return torch._dynamo.lookup_backend(backend)(module, example_inputs)

    import torch._dynamo

    fast = cdynamo.optimize(program, backend=checked)
    for _ in range(2):
        mine, theirs = given(), given()
        assert_same_objects(fast(mine), program(theirs))
        assert_same_objects(mine, theirs)
    assert recording.given and all(isinstance(module, torch.fx.GraphModule) for module in recording.given)
    assert all(isinstance(value, torch.Tensor) for inputs in recording.inputs for value in inputs)


def test_memory_that_tensors_cannot_have(recording):
    def program(values):
        return torch.from_numpy((np.sin(values) + values).copy()) + 1

    for values in (np.arange(4.0)[::-1], np.broadcast_to(np.float64(2), (3,))):
        assert torch.equal(cdynamo.optimize(program, backend=recording)(values), program(values))


def test_memory_that_tensors_cannot_have_is_written_to_once(recording):
    def program(values):
        values += 1
        values[:] = values[::-1]
        return values

    assert_same_objects(
        cdynamo.optimize(program, backend=recording)(np.arange(4.0)[::-1]), program(np.arange(4.0)[::-1])
    )


# ---- what is no longer used goes away


def test_nested_backends_of_others_are_not_refused(recording):
    def outer(module, example_inputs):
        return cdynamo.optimize(module, backend=recording)

    x = torch.ones(2)
    assert torch.equal(cdynamo.optimize(in_three_parts, backend=outer)(x), in_three_parts(x))
    gc.collect()


def test_ints_that_change_are_inputs(recording):
    """As in torch.compile's graphs. An int that the graph does not read is none."""

    def program(x, n, unused):
        return x.sum() * n + x[:, : n // 2].sum(), unused

    compiled = cdynamo.optimize(program, backend=recording)
    x = torch.arange(24.0).reshape(3, 8)
    for n in (4, 5, 6, 5):
        assert compiled(x, n, n + 9) == program(x, n, n + 9)
    assert [inputs[1:] for inputs in recording.inputs] == [[], [5], [6]]


def test_ints_that_change_beside_arrays(recording):
    compiled = cdynamo.optimize(lambda x, n: x * n + np.float32(1), backend=recording)
    for n in (4, 5, 6):
        result = compiled(np.ones(3, np.float32), n)
        np.testing.assert_array_equal(result, np.full(3, n + 1, np.float32), strict=True)


def test_gradients_that_the_program_takes_away(recording):
    """The engine that the graph calls finds none, as in eager."""
    layer = torch.nn.Linear(3, 2)

    def step(x):
        layer.zero_grad()
        layer(x).sum().backward()
        first = layer.bias.grad.clone()
        layer.bias.grad = torch.full((2,), 5.0)
        layer(x).sum().backward()
        return first, layer.bias.grad.clone(), layer.weight.grad.clone()

    x = torch.ones(4, 3)
    expected = step(x)
    compiled = cdynamo.optimize(step, backend=recording)
    for _ in range(3):
        for got, wanted in zip(compiled(x), expected, strict=True):
            assert torch.equal(got, wanted)


@pytest.mark.parametrize("backend", ["eager", lambda module, inputs: module.forward])
def test_a_backward_after_an_assignment_to_grad(backend):
    def program(layer, x):
        layer(x).sum().backward()
        layer.zero_grad()
        layer.bias.sum().backward()
        return layer.bias.grad

    layer = nn.Linear(3, 3)
    compiled = cdynamo.optimize(program, backend=backend)
    for _ in range(2):
        assert torch.equal(compiled(layer, torch.ones(2, 3)), torch.ones(3))
