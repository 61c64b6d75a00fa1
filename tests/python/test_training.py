"""Gradients through compiled functions are eager's: what can be an input, an output, and lie between them."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from training_check import assert_close, assert_same_gradients, check, leaf, tensors_of, twins  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def two_outputs(x, y):
    return x * y, (x + y).sin()


def nested_outputs(x, y):
    return {"a": x.exp(), "b": [y * 2, (x @ y.T,)]}


def one_input_unused(x, y):
    return x * 3


def integer_output(x, y):
    return x * y, x.argmax(dim=0), x > y


def detached_output(x, y):
    return (x * y).detach(), x + y


def output_twice(x, y):
    z = x * y
    return z, z


def output_is_input(x, y):
    return x, x * y


def view_of_result(x, y):
    z = x * y
    return z[0], z.T, z.reshape(-1)


def view_of_input(x, y):
    return x.T, x[1:] * y[1:]


def in_place_on_result(x, y):
    z = x * y
    z += x
    z[0] = y[0] * 2
    z[:, 1].mul_(3)
    return z.relu_()


def detach_between(x, y):
    return x * y.detach() + (x.detach() * 3).sin()


def no_grad_between(x, y):
    with torch.no_grad():
        scale = (x * y).abs().max()
    return x / scale + y


def enable_grad_between(x, y):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = y * 3
    return a, b, a + b


def stop_by_data(x, y):
    return x * y.data


def requires_grad_read(x, y):
    z = x * y
    return z * 2 if z.requires_grad else z


def where_and_clamp(x, y):
    return torch.where(x > 0, x.clamp(max=0.5), y.clamp(-0.2, 0.2))


def reductions(x, y):
    return x.sum(0), y.mean(), x.amax(1), (x * y).logsumexp(-1), x.std(0), y.prod(1), x.cumsum(1)


def gather_scatter(x, y):
    index = torch.tensor([[0, 1, 0], [1, 0, 2]])
    return x.gather(1, index), y[[0, 2, 0]], torch.zeros(4, 3).index_add(0, torch.tensor([1, 3, 1]), x[:3, :3])


def joined(x, y):
    return torch.cat([x, y * 2, x[:1]]), torch.stack([x, y], 1).sum(1), F.pad(x, (1, 2))


FUNCTIONS = [
    two_outputs, nested_outputs, one_input_unused, integer_output, detached_output, output_twice, output_is_input,
    view_of_result, view_of_input, in_place_on_result, detach_between, no_grad_between, enable_grad_between, stop_by_data,
    requires_grad_read, where_and_clamp, reductions, gather_scatter, joined,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("needs", [(True, True), (True, False), (False, True), (False, False)])
def test_gradients_of_arguments(function, needs):
    x, y = (torch.randn(3, 4).requires_grad_(need) for need in needs)
    check(function, x, y)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_function_is_one_graph(function, counts):
    check(function, leaf(3, 4), leaf(3, 4))
    assert (counts.graph_breaks, counts.graphs_compiled) == (0, 1)


@pytest.mark.parametrize(
    "shapes",
    [((), ()), ((3, 4), ()), ((3, 1), (4,)), ((2, 1, 4), (3, 1)), ((0,), (0,)), ((0, 4), (4,)), ((1,), (5,))],
    ids=str,
)
def test_shapes_that_broadcast(shapes):
    x, y = (leaf(*shape) for shape in shapes)
    check(lambda x, y: (x * y + y).sin() * x, x, y)


def test_not_contiguous():
    strided = torch.randn(6, 8)[::2, ::2].detach().requires_grad_()
    transposed = torch.randn(4, 3).T.detach().requires_grad_()
    check(lambda x, y: (x * y).exp() @ y.T, strided, transposed)
    expanded = torch.randn(3, 1).expand(3, 4)
    base = leaf(3, 4)
    compiled = cdynamo.optimize(lambda x, y: (x * y).sum())
    compiled(base, expanded).backward()
    assert_close(base.grad, expanded.contiguous())


def test_cotangents_that_are_not_contiguous():
    def function(x):
        return x.sin(), x.cos().T

    compiled = cdynamo.optimize(function)
    for cotangents in [
        (torch.randn(4, 3).T, torch.randn(3, 4).T),
        (torch.tensor(2.0).expand(3, 4), torch.tensor(1.0).expand(4, 3)),
    ]:
        x, y = (torch.ones(3, 4, requires_grad=True) for _ in range(2))
        torch.autograd.backward(compiled(x), cotangents)
        torch.autograd.backward(function(y), cotangents)
        assert_close(x.grad, y.grad)


def test_some_outputs_get_no_cotangent():
    def function(x, y):
        return x * y, x.sin(), y.exp()

    compiled = cdynamo.optimize(function)
    for chosen in [(0,), (1,), (2,), (0, 2), (0, 1, 2)]:
        got = []
        for f in (function, compiled):
            x, y = torch.full((3,), 0.5, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
            outputs = f(x, y)
            sum(outputs[i].sum() for i in chosen).backward()
            got.append((x.grad, y.grad))
        assert_close(got[1][0], got[0][0])
        assert_close(got[1][1], got[0][1])


def test_only_some_inputs_are_asked_for():
    compiled = cdynamo.optimize(lambda x, y: (x * y).sin())
    x, y = leaf(4), leaf(4)
    (gradient,) = torch.autograd.grad(compiled(x, y).sum(), [y])
    assert_close(gradient, x.detach() * (x * y).detach().cos())
    assert x.grad is None and y.grad is None


# What does not depend on w in the end: eager gives it a gradient of zeros, which optimizers treat otherwise than none.
UNSELECTED = {
    "padding": lambda x, w: F.embedding(torch.zeros(3, dtype=torch.long), w, padding_idx=0) + x,
    "masked_fill": lambda x, w: w.masked_fill(torch.ones(4, dtype=torch.bool), 0) + x,
    "where": lambda x, w: torch.where(torch.tensor(False), w.exp(), x) * 2,
    "where, the other": lambda x, w: torch.where(torch.ones((), dtype=torch.bool), x, w) * 2,
    "part of cat": lambda x, w: torch.cat([w, x])[3:],
    "part of stack": lambda x, w: torch.stack([w, x]).unbind()[1],
    "overwritten": lambda x, w: (w * 2).copy_(x),
    "filled": lambda x, w: w.clone().fill_(3) + x,
    "index_copy": lambda x, w: w.index_copy(0, torch.arange(3), x),
    "slice_scatter": lambda x, w: torch.slice_scatter(w, x),
    "triangle": lambda x, w: w.tril(-5) + x,
    "nothing": lambda x, w: w.narrow(0, 0, 0).sum() + x,
    "beta": lambda x, w: torch.addmm(w, x, x.T @ x, beta=0),
    "alpha": lambda x, w: torch.addmm(x, w, w.T @ w, alpha=0),
    "lerp": lambda x, w: torch.lerp(x, w, 0.0),
    "dropout": lambda x, w: F.dropout(w, 1.0, True) + x,
    "ignored targets": lambda x, w: F.cross_entropy(w, torch.full((3,), -100), reduction="sum") + x,
}


@pytest.mark.parametrize("name", UNSELECTED)
def test_what_is_not_selected_has_a_gradient_of_zeros(name):
    function = UNSELECTED[name]
    for f in (function, cdynamo.optimize(function, fullgraph=True)):
        x, w = leaf(3, 4), leaf(3, 4)
        f(x, w).sum().backward()
        assert x.grad is not None and torch.equal(w.grad, torch.zeros(3, 4))


ASKED = {
    "grad": lambda loss, x, w: torch.autograd.grad(loss, [x]),
    "grad of what has a history": lambda loss, x, w: torch.autograd.grad(loss, [w]),
    "backward(inputs=)": lambda loss, x, w: loss.backward(inputs=[x]) or (x.grad,),
    "create_graph": lambda loss, x, w: torch.autograd.grad(
        torch.autograd.grad(loss, [x], create_graph=True)[0].square().sum(), [x, w]
    ),
    "twice": lambda loss, x, w: torch.autograd.grad(loss, [x], retain_graph=True) + torch.autograd.grad(loss, [w]),
    "batched": lambda loss, x, w: torch.autograd.grad(loss, [x], torch.ones(3), is_grads_batched=True),
}


@pytest.mark.parametrize("name", ASKED)
def test_some_gradients_of_sizes_that_change(name):
    """Only those are computed, by a backward that is compiled when it is first asked for."""
    function = lambda x, w: ((x @ w).sin() * x[:, :1]).mean(0).square().sum()
    compiled = cdynamo.optimize(function)
    for rows in (4, 7, 9, 1, 4, 16):
        x, w = torch.linspace(-1, 1, rows * 3).reshape(rows, 3), torch.linspace(0, 1, 6).reshape(3, 2)
        got, expected = (
            ASKED[name](f(*inputs), *inputs)
            for f in (compiled, function)
            for inputs in [(x.clone().requires_grad_(), w.clone().requires_grad_() * 1)]
        )
        for one, other in zip(got, expected, strict=True):
            assert_close(one, other)


def test_what_is_not_asked_for_is_not_computed(caplog):
    compiled = cdynamo.optimize(lambda x, w: (x @ w).sin())
    inputs = leaf(3, 4), leaf(4, 5)
    result = compiled(*inputs).sum()
    cdynamo.set_logs(aot=True)
    try:
        with caplog.at_level("DEBUG", logger="cdynamo.aot"):
            for wanted in inputs:
                torch.autograd.grad(result, [wanted], retain_graph=True)
            result.backward()  # was compiled before
    finally:
        cdynamo.set_logs(aot=False)
    graphs = [record.getMessage() for record in caplog.records if record.getMessage().startswith("backward")]
    assert [graph.count("core.mm(") for graph in graphs] == [1, 1]


def test_gradients_accumulate():
    compiled = cdynamo.optimize(lambda x: (x * x).sum())
    x = leaf(5)
    for _ in range(3):
        compiled(x).backward()
    assert_close(x.grad, 6 * x.detach())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtypes(dtype):
    x, y = torch.rand(8, 8).to(dtype).requires_grad_(), torch.rand(8).to(dtype).requires_grad_()
    got = []
    function = lambda x, y: ((x * y).sin() + x.sum()).mean()
    for f in (function, cdynamo.optimize(function)):
        loss = f(x, y)
        got.append((loss, *torch.autograd.grad(loss, [x, y])))
    for a, b in zip(got[1], got[0]):
        assert a.dtype == b.dtype
        tolerance = {torch.float64: 1e-12, torch.bfloat16: 3e-2, torch.float16: 4e-3}[dtype]
        torch.testing.assert_close(a.double(), b.double(), rtol=tolerance, atol=tolerance)


def test_casts_in_between():
    check(lambda x, y: (x.double() * y).float() + x.to(torch.bfloat16).float().detach(), leaf(4), leaf(4))


def test_an_input_that_is_written_to():
    """A buffer is; a leaf that requires grad may not be."""

    def function(x, state):
        state.mul_(0.9).add_(x.detach() * 0.1)
        return (x * 2).sum()

    state, eagers = torch.ones(4), torch.ones(4)
    x = leaf(4)
    cdynamo.optimize(function)(x, state).backward()
    function(x, eagers)
    assert_close(state, eagers)
    assert_close(x.grad, torch.full((4,), 2.0))
    with pytest.raises(RuntimeError, match="leaf Variable"):
        cdynamo.optimize(lambda x: x.add_(1))(leaf(4))


def test_an_input_with_history_that_is_written_to():
    def step(f):
        x = torch.linspace(0, 1, 4).requires_grad_()
        y = x * 2
        out = f(y)
        (out.sum() + (y * y).sum()).backward()
        return x.grad, y

    def function(y):
        y.mul_(3)
        return y.sin()

    for a, b in zip(step(cdynamo.optimize(function)), step(function)):
        assert_close(a, b)


def test_no_tensor_requires_grad(counts):
    compiled = cdynamo.optimize(lambda x: x.sin())
    assert not compiled(torch.ones(3)).requires_grad
    assert compiled(torch.ones(3, requires_grad=True)).requires_grad
    with torch.no_grad():
        assert not compiled(torch.ones(3, requires_grad=True)).requires_grad


# ---- modules -------------------------------------------------------------------------------------------------------


class Tied(nn.Module):
    """An embedding whose weight is the head's too, as in language models."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.embedding.weight
        self.norm = nn.LayerNorm(8)

    def forward(self, tokens):
        return self.head(self.norm(self.embedding(tokens)))


def test_tied_parameters():
    eager, compiled = twins(Tied())
    tokens = torch.randint(0, 16, (4, 5))
    for model in (eager, compiled):
        F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    assert_same_gradients(compiled, eager)
    assert compiled.head.weight.grad is compiled.embedding.weight.grad


def test_the_same_tensor_in_two_arguments():
    x = leaf(4)
    compiled = cdynamo.optimize(lambda a, b: (a * b).sum())
    compiled(x, x).backward()
    assert_close(x.grad, 2 * x.detach())


@pytest.mark.parametrize(
    "loss",
    [
        lambda out, target: F.cross_entropy(out, target),
        lambda out, target: F.cross_entropy(out, target, label_smoothing=0.1, reduction="sum"),
        lambda out, target: F.cross_entropy(out, target, ignore_index=1),
        lambda out, target: F.nll_loss(F.log_softmax(out, -1), target),
        lambda out, target: F.mse_loss(out, out.detach() * 0.5),
        lambda out, target: F.smooth_l1_loss(out, target[:, None].float().expand_as(out)),
        lambda out, target: F.binary_cross_entropy_with_logits(out, (out.detach() > 0).float()),
        lambda out, target: F.kl_div(F.log_softmax(out, -1), F.softmax(out.detach() * 2, -1), reduction="batchmean"),
    ],
    ids=["cross_entropy", "smoothed", "ignored", "nll", "mse", "smooth_l1", "bce", "kl"],
)
def test_losses(loss):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 5))

        def forward(self, x, target):
            return loss(self.layers(x), target)

    eager, compiled = twins(Model())
    x, target = torch.randn(7, 6), torch.tensor([0, 1, 2, 3, 4, 1, 0])
    results = []
    for model in (eager, compiled):
        results.append(model(x, target))
        results[-1].backward()
    assert_close(results[1], results[0])
    assert_same_gradients(compiled, eager)


def test_frozen_parameters_and_later_thawed():
    eager, compiled = twins(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)))
    x = torch.randn(3, 4)
    for frozen in (True, False):
        for model in (eager, compiled):
            model.zero_grad()
            model[0].requires_grad_(not frozen)
            model(x).square().sum().backward()
        assert (compiled[0].weight.grad is None) == frozen
        assert_same_gradients(compiled, eager)


class Toggled(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.drop(F.relu(self.norm(self.conv(x))).mean((2, 3))))


def test_train_and_eval_toggled():
    eager, compiled = twins(Toggled())
    for step, training in enumerate([True, True, False, True, False, False, True]):
        x = torch.randn(4, 3, 6, 6)
        outputs = []
        for model in (eager, compiled):
            model.train(training)
            model.zero_grad()
            torch.manual_seed(step)
            outputs.append(model(x))
            outputs[-1].square().mean().backward()
        assert_close(outputs[1], outputs[0], f"step {step}")
        assert_same_gradients(compiled, eager)
        for (name, ours), (_, theirs) in zip(compiled.named_buffers(), eager.named_buffers()):
            assert_close(ours, theirs, name)


def test_recurrent_network():
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 5), nn.Linear(5, 5)

        def forward(self, xs):
            state = xs.new_zeros(xs.shape[1], 5)
            for x in xs:
                state = torch.tanh(self.a(x) + self.b(state))
            return state

    eager, compiled = twins(Cell())
    xs = torch.randn(6, 2, 3)
    for model in (eager, compiled):
        model(xs).sum().backward()
    assert_same_gradients(compiled, eager)


def test_sizes_that_change(counts):
    eager, compiled = twins(nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)))
    for rows in (4, 5, 6, 7, 1):
        x = torch.randn(rows, 4)
        for model in (eager, compiled):
            model.zero_grad()
            F.softmax(model(x), -1).square().sum().backward()
        assert_same_gradients(compiled, eager)
    assert counts.graphs_compiled <= 3  # static, dynamic, and the size 1


def test_through_a_graph_break(counts):
    def function(x, y):
        z = (x * y).sin()
        cdynamo.graph_break()
        return (z * x).exp() + y

    check(function, leaf(4), leaf(4))
    assert counts.graph_breaks > 0


def test_through_a_branch_that_only_the_data_decide(counts):
    def function(x, y):
        z = (x * y).sin()
        if z.sum() > -100:
            z = z * x
        return z.exp() + y

    check(function, leaf(4), leaf(4))
    assert counts.graph_breaks == 0


def test_two_compiled_functions_in_a_row():
    first, second = cdynamo.optimize(lambda x: x.sin() * 2), cdynamo.optimize(lambda x: x.exp().sum())
    x, y = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
    second(first(x) * 3).backward()
    ((y.sin() * 6).exp().sum()).backward()
    assert_close(x.grad, y.grad)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_backends_train(backend):
    if backend == "inductor" and not _has_compiler():
        pytest.skip("inductor wants a C++ compiler")
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    compiled = cdynamo.optimize(model, backend=backend)
    x = torch.randn(3, 4, requires_grad=True)
    gradients = []
    for f in (model, compiled, compiled):
        model.zero_grad()
        x.grad = None
        f(x).square().sum().backward()
        gradients.append([x.grad, *(p.grad for p in model.parameters())])
    for ours in gradients[1:]:
        for a, b in zip(ours, gradients[0]):
            assert_close(a, b)


def _has_compiler() -> bool:
    import shutil

    return bool(shutil.which("g++") or shutil.which("clang++"))


def test_outputs_know_whether_they_require_grad():
    compiled = cdynamo.optimize(lambda x, y: (x * 2, y * 2, x.detach(), (x > 0), x.sum().item()))
    outputs = compiled(leaf(3), torch.randn(3))
    assert [t.requires_grad for t in tensors_of(outputs)] == [True, False, False, False]
    assert outputs[0].grad_fn is not None and not outputs[0].is_leaf and outputs[1].is_leaf


@pytest.mark.parametrize("name", ["expand_as", "view_as", "reshape_as", "type_as", "to"])
def test_what_a_tensor_is_made_like_gives_it_no_history(name):
    def function(x, at):
        with torch.no_grad():
            made = x * 2
        like = getattr(made, name)(x)
        like[at] = 2.0
        return like

    check(function, leaf(3), torch.tensor([0, 1]))
