"""What PyTorch's autograd refuses, it refuses of compiled functions: the same error, with the same words."""

from __future__ import annotations

import copy
import gc
import re
import warnings
import weakref

import pytest
from saying import shout

import cdynamo

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from training_check import leaf, tensors_of  # noqa: E402

# ---- functions: given what compiles ----------------------------------------------------------------------------------


def with_a_break(x):
    y = (x * x).exp()
    shout(end="")
    return y * y.sin()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).exp()


class Nested(nn.Module):
    def __init__(self, block) -> None:
        super().__init__()
        self.block = block

    def forward(self, x):
        return self.block(x).sin() * x


BLOCK = Block()


def nested_functions(wrap):
    inner = wrap(lambda x: (x * x).exp())
    return wrap(lambda x: inner(x) * x)


FUNCTIONS = {
    "plain": lambda wrap: wrap(lambda x: (x * x).exp()),
    "break": lambda wrap: wrap(with_a_break),
    "several outputs": lambda wrap: wrap(lambda x: ((x * x).exp(), x.sin() * x, x.detach() * 2)),
    "nested": nested_functions,
    "nested modules": lambda wrap: wrap(Nested(wrap(copy.deepcopy(BLOCK)))),
    "a view of the input": lambda wrap: wrap(lambda x: x[0:2]),
    "a view and a value": lambda wrap: wrap(lambda x: (x.view(-1), (x * x).exp())),
    "slope of nan": lambda wrap: wrap(lambda x: x.sqrt() * 0 + x.log()),
}


def inference_tensor():
    with torch.inference_mode():
        return torch.rand(4, 3)


INPUTS = {
    "leaf": lambda: torch.rand(4, 3, requires_grad=True),
    "result": lambda: torch.rand(4, 3, requires_grad=True) * 1,
    "view": lambda: torch.rand(8, 3, requires_grad=True)[::2],
    "integers": lambda: torch.arange(12).view(4, 3),
    "inference": inference_tensor,
}


# ---- what is done with them --------------------------------------------------------------------------------------------


def total(result):
    return sum(x.sum() for x in tensors_of(result) if x.requires_grad)


def first(result):
    return tensors_of(result)[0]


def twice(f, x):
    loss = total(f(x))
    loss.backward()
    loss.backward()


def twice_by_grad(f, x):
    loss = total(f(x))
    torch.autograd.grad(loss, x)
    torch.autograd.grad(loss, x)


def twice_of_a_gradient(f, x):
    (gradient,) = torch.autograd.grad(total(f(x)), x, create_graph=True)
    gradient.sum().backward()
    gradient.sum().backward()


def one_output_after_the_other(f, x):
    result = f(x)
    for part in result if isinstance(result, tuple) else result:
        if part.requires_grad:
            part.sum().backward()


def one_output_twice(f, x):
    result = first(f(x))
    result[0].sum().backward(retain_graph=True)
    result[1].sum().backward()
    result[0].sum().backward()


def write_to_the_input(f, x):
    y = x * 1
    loss = total(f(y))
    y.add_(1)
    loss.backward()


def write_to_a_view_of_the_input(f, x):
    y = x * 1
    loss = total(f(y))
    y[0].add_(1)
    loss.backward()


def write_to_the_input_before_the_second_derivative(f, x):
    y = x * 1
    (gradient,) = torch.autograd.grad(total(f(y)), x, create_graph=True)
    y.add_(1)
    gradient.sum().backward()


def write_to_the_leaf(f, x):
    loss = total(f(x))
    with torch.no_grad():
        x.add_(1)
    loss.backward()


def write_to_the_output(f, x):
    result = f(x)
    first(result).mul_(2)
    total(result).backward()


def write_to_the_output_under_no_grad(f, x):
    result = f(x)
    with torch.no_grad():
        first(result).mul_(2)
    total(result).backward()


def write_before_the_call(f, x):
    x.add_(1)
    total(f(x)).backward()


def wrong_shape(f, x):
    first(f(x)).backward(torch.ones(7))


def wrong_rank(f, x):
    torch.autograd.grad(first(f(x)), x, torch.ones(2, 2, 2, 2))


def wrong_number(f, x):
    torch.autograd.grad([first(f(x))], [x], [torch.ones(4, 3)] * 2)


def complex_gradient(f, x):
    result = first(f(x))
    result.backward(torch.ones_like(result, dtype=torch.complex64))


def no_scalar(f, x):
    first(f(x)).backward()


def hook_with_a_wrong_shape(f, x):
    result = first(f(x))
    result.register_hook(lambda gradient: gradient[:1])
    result.sum().backward()


def unused_input(f, x):
    torch.autograd.grad(total(f(x)), [x, leaf(3)])


def requires_grad_off(f, x):
    first(f(x)).requires_grad_(False)


def to_numpy(f, x):
    first(f(x)).numpy()


def deep_copy(f, x):
    copy.deepcopy(first(f(x)))


def no_inputs(f, x):
    total(f(x)).backward(inputs=[])


def nan_in_the_backward(f, x):
    with torch.autograd.detect_anomaly(check_nan=True):
        total(f(torch.zeros(4, 3, requires_grad=True))).backward()


def nan_in_the_second_derivative(f, x):
    with torch.autograd.detect_anomaly(check_nan=True):
        x = torch.zeros(4, 3, requires_grad=True)
        (gradient,) = torch.autograd.grad(total(f(x)), x, create_graph=True)
        gradient.sum().backward()


def nan_from_outside(f, x):
    with torch.autograd.detect_anomaly(check_nan=True):
        result = first(f(x))
        result.backward(torch.full_like(result, float("nan")))


SITUATIONS = [
    *(twice, twice_by_grad, twice_of_a_gradient, one_output_after_the_other, one_output_twice),
    *(write_to_the_input, write_to_a_view_of_the_input, write_to_the_input_before_the_second_derivative),
    *(write_to_the_leaf, write_to_the_output, write_to_the_output_under_no_grad, write_before_the_call),
    *(wrong_shape, wrong_rank, wrong_number, complex_gradient, no_scalar, hook_with_a_wrong_shape, unused_input),
    *(requires_grad_off, to_numpy, deep_copy, no_inputs),
    *(nan_in_the_backward, nan_in_the_second_derivative, nan_from_outside),
]


def outcome(function, situation, make_input, wrap) -> str:
    torch.manual_seed(1)
    f, x = function(wrap), make_input()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # anomaly mode warns
        try:
            situation(f, x)
        except Exception as error:
            words = re.sub(r"\s+", " ", str(error))[:110]
            words = re.sub(r"'\w+Backward\w*'", "a node", words)  # eager names the operator, ours is one node
            return f"{type(error).__name__}: {re.sub(r'0x[0-9a-f]+|[0-9]+', '#', words)}"
    return "none"


@pytest.mark.parametrize("situation", SITUATIONS)
def test_errors_are_eagers(situation):
    wrong = []
    for name, function in FUNCTIONS.items():
        for kind, make_input in INPUTS.items():
            expected = outcome(function, situation, make_input, lambda f: f)
            got = outcome(function, situation, make_input, cdynamo.optimize)
            if got != expected:
                wrong.append(f"{name}, {kind}: {got}, eager: {expected}")
        cdynamo.reset()
    assert not wrong, "\n".join(wrong)


# ---- what is no error --------------------------------------------------------------------------------------------------


def test_losses_of_one_call_whose_gradients_do_not_meet():
    """A backward of one frees nothing of the other's, and both are eager's."""

    def function(x, y):
        return (x * x).exp(), (y.sin() * y, (y * 3).exp())

    results = []
    for f in (function, cdynamo.optimize(function)):
        x, y = torch.linspace(0, 1, 3).requires_grad_(), torch.linspace(1, 2, 4).requires_grad_()
        a, (b, c) = f(x, y)
        b.sum().backward()
        assert x.grad is None
        a.sum().backward()
        c.sum().backward()
        results.append((x.grad, y.grad))
        with pytest.raises(RuntimeError, match="second time"):
            b.sum().backward()
    for got, expected in zip(*results):
        torch.testing.assert_close(got, expected)


APART = {
    "what is expanded once": lambda x, w: (x.sin() * w, x.cos() * w),
    "a number added": lambda x, w: ((w + 1) * x, (w + 1).exp()),
}


@pytest.mark.parametrize("name", APART)
def test_losses_that_share_what_saves_nothing(name):
    results = []
    for f in (APART[name], cdynamo.optimize(APART[name])):
        x, w = torch.linspace(0, 1, 6).reshape(2, 3).requires_grad_(), torch.linspace(1, 2, 3).requires_grad_()
        a, b = f(x, w)
        a.sum().backward()
        b.sum().backward()
        results.append((x.grad, w.grad))
    for got, expected in zip(*results):
        torch.testing.assert_close(got, expected)


def second_reader_of_one(x):
    y = x.exp()
    return y.tanh() * 2, y.tanh() * 3


def assert_same_outcomes(found, wanted):
    """Of backwards, one after the other: gradients, or the words of errors."""
    for got, expected in zip(found, wanted, strict=True):
        if isinstance(expected, str) or isinstance(got, str):
            assert got == expected
        else:
            torch.testing.assert_close(got, expected)


CALLED_TWICE = {
    "what saves": lambda x: (x.tanh() * 2, x.tanh() * 3),
    "what saves, and is returned": lambda x: (x.tanh() * 2, x.tanh()),
    "what saves nothing, and is returned": lambda x: ((x + 1) * x.detach(), x + 1),
    "several operators": lambda x: (x.softmax(-1) * 2, x.softmax(-1).log()),
    "on what is shared": second_reader_of_one,
}


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 0), (1, 1), (0, 1, 0), (1, 1, 0), (0, 1, 1)])
@pytest.mark.parametrize("name", CALLED_TWICE)
def test_equal_calls_have_a_history_each(name, order):
    def backwards(f):
        x = torch.linspace(-1, 1, 4).requires_grad_()
        results, done = f(x), []
        for i in order:
            try:
                results[i].sum().backward()
            except RuntimeError as error:
                done.append(str(error))
            else:
                done.append(x.grad.clone())
        return done

    function = CALLED_TWICE[name]
    assert_same_outcomes(backwards(cdynamo.optimize(function)), backwards(function))


def test_what_waits_for_the_other_backward_may_not_be_written_to():
    function = lambda x, y: (x.exp(), y.exp())
    for f in (function, cdynamo.optimize(function)):
        x, y = leaf(3), leaf(3)
        a, b = f(x, y)
        a.sum().backward()
        with torch.no_grad():
            b.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            b.sum().backward()


@pytest.mark.native
def test_what_waits_for_the_other_backward_is_freed_with_the_results():
    x, y = leaf(3), leaf(3)
    a, b = cdynamo.optimize(lambda x, y: (x.exp(), y.exp()))(x, y)
    a.sum().backward()
    node = weakref.ref(b.grad_fn)
    del a, b
    gc.collect()
    assert node() is None


@pytest.mark.parametrize(
    "function", [lambda x: x + 1, lambda x: torch.cat([x, -x]).view(2, -1)[1:], lambda x: F.pad(x, [1, 1])]
)
def test_backward_twice_where_nothing_is_saved(function):
    for f in (function, cdynamo.optimize(function)):
        x = leaf(4)
        loss = f(x).sum()
        loss.backward()
        once = x.grad.clone()
        loss.backward()
        assert torch.equal(x.grad, 2 * once)


WAYS = {
    "a sum": lambda x, w: x + w * 2,
    "a sum of what saves": lambda x, w: x.t() + w.exp().t(),
    "a sum, and what saves": lambda x, w: (x - w.sin() * w).sum(1) + x.mean(1),
    "results that are added": lambda x, w: (x + w.exp()).cumsum(0) + (x + w.exp()).flip(0),
}
TURNS = ["x x", "w x x", "b x", "b x w", "x b", "x w b", "b b", "x x w w", "x k b x w"]


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("name", WAYS)
def test_a_backward_goes_again_where_nothing_on_its_way_is_saved(name, turns):
    """By x, by w, by both; k: the same for both, with the graph kept."""

    def backwards(f):
        torch.manual_seed(0)
        x, w = leaf(2, 3), leaf(2, 3)
        result, done = f(x, w), []
        for turn in turns.split():
            by = {"x": [x], "w": [w]}.get(turn, [x, w])
            try:
                done += torch.autograd.grad(result.sum(), by, retain_graph=turn == "k")
            except RuntimeError as error:
                done.append(str(error))
        return done

    function = WAYS[name]
    assert_same_outcomes(backwards(cdynamo.optimize(function)), backwards(function))


@pytest.mark.parametrize(
    "function",
    [lambda x: x.norm(0), lambda x: x.norm(0, dim=0), lambda x: torch.where(torch.tensor([True]), 1.0, x)],
)
def test_results_that_no_gradient_flows_from_have_a_history(function):
    for f in (function, cdynamo.optimize(function)):
        x = leaf(3)
        loss = f(x).sum()
        assert loss.requires_grad
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True, allow_unused=True)
        assert gradient is None or not gradient.any()
        loss.backward()
        assert x.grad is None or not x.grad.any()


@pytest.mark.parametrize("name", ["round", "floor", "ceil", "trunc", "frac", "sign"])
def test_steps_save_nothing(name):
    """What a backward of another result has freed is not missed: eager's operator saves no tensor."""

    def f(x):
        x = getattr(x, name)()
        x.float().sum().backward()
        return x

    fast = cdynamo.optimize(f)
    for rows in (0, 2, 2):
        x, y = (torch.full((rows, 3), 1.5, dtype=torch.float64, requires_grad=True) for _ in range(2))
        fast(x).sum().backward()
        f(y).sum().backward()
        assert torch.equal(x.grad, y.grad)


@pytest.mark.parametrize(
    "softmax",
    [
        lambda x: x.softmax(-1),
        lambda x: x.log_softmax(0),
        lambda x: F.softmin(x, 1),
        lambda x: x.float().cos() + x.softmax(-1, torch.float32),
        lambda x: x.bfloat16().softmax(1).float() + x.sum(0).softmax(0),
        lambda x: x.sum().softmax(0) + x.log_softmax(1).exp(),
    ],
    ids=["softmax", "log_softmax", "softmin", "other dtype", "half", "of a number"],
)
@pytest.mark.parametrize("inside", [False, True])
def test_softmax_saves_its_result(softmax, inside):
    """Its operand may be written to before the backward."""

    def f(x):
        y = x * 2
        if not inside:
            cdynamo.graph_break()
        z = softmax(y)
        if not inside:
            cdynamo.graph_break()
        y.add_(1)
        return z, y

    fast = cdynamo.optimize(f)

    def gradient(use):
        x = torch.arange(6, dtype=torch.float64).reshape(2, 3).sin().requires_grad_()
        z, _ = use(x)
        (z * torch.arange(3.0)).sum().backward()
        return x.grad

    for _ in range(2):
        torch.testing.assert_close(gradient(fast), gradient(f), rtol=1e-6, atol=1e-6)


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        self.seen += 1
        return x * 2


def test_a_second_backward_in_a_graph_for_python_keeps_what_was_done_before():
    def f(model, x):
        shared = x.exp()
        for row in shared:
            model(row).sum().backward()

    seen = []
    for run in (f, cdynamo.optimize(f, backend="eager")):
        model, x = Counting(), torch.ones(3, 3, requires_grad=True)
        with pytest.raises(RuntimeError, match="second time"):
            run(model, x)
        seen.append((model.calls, model.seen.item(), x.grad.tolist()))
    assert seen[0] == seen[1]
