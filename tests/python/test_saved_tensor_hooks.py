"""torch.autograd.graph's hooks of saved tensors, around and inside of compiled functions: what is packed and unpacked, and
every gradient, is eager's."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks  # noqa: E402
from torch.testing import assert_close  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from training_check import leaf  # noqa: E402


@pytest.fixture
def graphs():
    """How many graphs were compiled, and how often one broke, since the test began."""
    before = cdynamo.counters()
    return lambda: tuple(cdynamo.counters()[k] - before[k] for k in ("graphs_compiled", "graph_breaks"))


class Rounding(saved_tensors_hooks):
    """Keeps saved tensors in half precision, and counts."""

    def __init__(self):
        self.packed, self.unpacked = [], 0
        super().__init__(self.pack, self.unpack)

    def pack(self, tensor):
        self.packed.append(tuple(tensor.shape))
        return tensor.detach().half()

    def unpack(self, tensor):
        self.unpacked += 1
        return tensor.float()


def body(x, w):
    return torch.softmax((x.sin() @ w).tanh(), -1) * x


def gradients(function, *context):
    x, w = leaf(4, 4), leaf(4, 4)
    torch.manual_seed(0)
    with torch.no_grad():
        x.uniform_(-1, 1), w.uniform_(-1, 1)
    for manager in context:
        manager.__enter__()
    out = function(x, w)
    for manager in reversed(context):
        manager.__exit__(None, None, None)
    (out * torch.arange(16.0).view(4, 4)).sum().backward()
    return out.detach(), x.grad, w.grad


def test_around_a_call(graphs):
    compiled = cdynamo.optimize(body)
    for warm in (True, False):  # before the function is compiled, and after
        ours, theirs = Rounding(), Rounding()
        got, expected = gradients(compiled, ours), gradients(body, theirs)
        for a, b in zip(got, expected, strict=True):
            assert torch.equal(a, b)
        assert ours.packed == theirs.packed and ours.unpacked == theirs.unpacked > 0
        if warm:
            assert_close(gradients(compiled), gradients(body))
    assert graphs()[1] == 0


def test_the_innermost_counts(graphs):
    ours, theirs = Rounding(), Rounding()
    compiled = cdynamo.optimize(body, fullgraph=True)
    assert_close(gradients(compiled, ours, save_on_cpu()), gradients(body, theirs, save_on_cpu()))
    assert ours.packed == theirs.packed == []
    assert graphs() == (1, 0)


def test_nothing_is_saved_without_grad_mode(graphs):
    compiled, hooks = cdynamo.optimize(body, fullgraph=True), Rounding()
    x, w = leaf(4, 4), leaf(4, 4)
    with hooks, torch.no_grad():
        assert_close(compiled(x, w), body(x, w))
    assert hooks.packed == [] and graphs() == (1, 0)


@pytest.mark.parametrize("pin_memory", [False, True])
def test_save_on_cpu_around_a_call(pin_memory, graphs):
    """What hooks give back may lie in memory in another way: pinned memory is contiguous."""

    def transposed(x, w):
        return body(x.t(), w).t() * w.t().exp()

    compiled = cdynamo.optimize(transposed, fullgraph=True)
    assert_close(gradients(compiled, save_on_cpu(pin_memory)), gradients(transposed))
    assert graphs() == (1, 0)


def test_save_on_cpu_of_what_is_expanded():
    def function(row, w):
        return (row.exp() * w.sin()).sum(0)

    def gradient(function, context):
        torch.manual_seed(0)
        row, w = leaf(4), leaf(3, 4)
        with context:
            out = function(row.expand(3, 4), w)
        out.sum().backward()
        return row.grad, w.grad

    compiled = cdynamo.optimize(function, fullgraph=True)
    assert_close(gradient(compiled, save_on_cpu(pin_memory=True)), gradient(function, save_on_cpu()))


@pytest.mark.parametrize("backend", ["native", "eager", "aot_eager", lambda gm, inputs: gm.forward])
def test_checkpoints_of_compiled_functions(backend, graphs):
    compiled = cdynamo.optimize(body, fullgraph=True, backend=backend)
    for _ in range(2):
        got = gradients(lambda x, w: checkpoint(compiled, x, w, use_reentrant=False))
        assert_close(got, gradients(body))
    assert graphs() == (1, 0)


def test_inside_of_a_function(graphs):
    def build(hooks):
        def function(x, w):
            y = x * 2
            with hooks:
                y = body(y, w)
            return y.exp()

        return function

    ours, theirs = Rounding(), Rounding()
    compiled = cdynamo.optimize(build(ours))
    for _ in range(2):
        assert_close(gradients(compiled), gradients(build(theirs)))
        assert ours.packed == theirs.packed and ours.unpacked == theirs.unpacked > 0
    assert graphs()[1] == 1


def saves_on_cpu(x, w):
    with save_on_cpu():
        y = body(x, w)
    return y.exp() * w


def saves_part_on_cpu(x, w):
    with save_on_cpu(pin_memory=True):
        y = body(x, w)
        with save_on_cpu():
            y = y * x
    return y.exp() * w


def disables(x, w):
    with disable_saved_tensors_hooks("not here"):
        return body(x, w)


@pytest.mark.parametrize("function", [saves_on_cpu, saves_part_on_cpu, disables], ids=lambda f: f.__name__)
def test_captured(function, graphs):
    compiled = cdynamo.optimize(function, fullgraph=True)
    for _ in range(2):
        assert_close(gradients(compiled), gradients(function))
    assert graphs() == (1, 0)


def enters_where_disabled(x, w):
    with disable_saved_tensors_hooks("not here"), save_on_cpu():
        return body(x, w)


def checkpoint_where_disabled(x, w):
    with disable_saved_tensors_hooks("not here"):
        return checkpoint(body, x, w, use_reentrant=False)


@pytest.mark.parametrize("function", [enters_where_disabled, checkpoint_where_disabled], ids=lambda f: f.__name__)
def test_disabled(function):
    for called in (function, cdynamo.optimize(function)):
        with pytest.raises(RuntimeError, match="not here"):
            called(leaf(4, 4), leaf(4, 4))
    assert torch._C._autograd._saved_tensors_hooks_is_enabled()


def test_disabled_around_a_call():
    function = lambda x, w: checkpoint(body, x, w, use_reentrant=False)
    for called in (function, cdynamo.optimize(function)):
        with disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
            called(leaf(4, 4), leaf(4, 4))


def test_hooks_that_stay_on():
    """A function that enters hooks and does not leave them."""
    ours = Rounding()

    def function(x, w):
        ours.__enter__()
        return body(x, w)

    out = cdynamo.optimize(function)(leaf(4, 4), leaf(4, 4))
    leaf(3).exp()
    ours.__exit__()
    assert ours.packed[-1] == (3,) and len(ours.packed) > 2
    out.sum().backward()
    assert ours.unpacked == len(ours.packed) - 1
