"""cdynamo as a backend of torch.compile, and torch's backends under cdynamo."""

from __future__ import annotations

import copy
import os
import subprocess
import sys

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from training_check import assert_close, assert_same_gradients  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def small_model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2))


def test_forward_and_backward(counts):
    model, eager = small_model(), small_model()
    eager.load_state_dict(model.state_dict())
    compiled = torch.compile(model, backend="cdynamo")
    for rows in (3, 3, 5, 6):
        x = torch.randn(rows, 4)
        inputs = [x.clone().requires_grad_() for _ in range(2)]
        for f, given in zip((compiled, eager), inputs):
            f.zero_grad()
            f(given).square().sum().backward()
        assert_close(inputs[0].grad, inputs[1].grad)
        assert_same_gradients(compiled, eager)
    assert counts.graphs_compiled >= 1 and counts.graph_breaks == 0


def test_inference_and_options():
    model = small_model().eval()
    compiled = torch.compile(model, backend="cdynamo", options={"fullgraph": True})
    x = torch.randn(3, 4)
    with torch.no_grad():
        assert_close(compiled(x), model(x))
    with pytest.raises(Exception, match="nonsense"):
        torch.compile(lambda x: x + 1, backend="cdynamo", options={"nonsense": 1})(x)


def test_graphs_of_a_program_that_breaks():
    def function(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y * x

    x = torch.randn(4, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    torch.compile(function, backend="cdynamo")(x).sum().backward()
    function(y).sum().backward()
    assert_close(x.grad, y.grad)


def test_torch_finds_the_backend_before_cdynamo_is_imported():
    """Through the entry point group torch_dynamo_backends; tools/build.sh writes the metadata of a checkout."""
    program = (
        "import torch, sys\n"
        "assert 'cdynamo' in torch._dynamo.list_backends() and 'cdynamo' not in sys.modules\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "torch.compile(lambda x: (x * 3).sum(), backend='cdynamo')(x).backward()\n"
        "print(x.grad.tolist(), sys.modules['cdynamo'].counters()['graphs_compiled'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[3.0, 3.0, 3.0] 1", done.stderr


# ---- the other way round -------------------------------------------------------------------------------------------


def test_names_of_backends():
    names = cdynamo.list_backends()
    assert names[:3] == ["native", "eager", "aot_eager"] and "inductor" in names
    assert "cdynamo" not in names  # it is no backend of itself
    with pytest.raises(ValueError, match="unknown backend 'cdynamo'"):
        cdynamo.optimize(lambda x: x, backend="cdynamo")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_that_change_under_a_backend(backend):
    function = lambda x: (x.sin() * x.shape[0]).sum(0)
    compiled = cdynamo.optimize(function, backend=backend)
    for rows in (4, 5, 6, 7, 5):
        x = torch.randn(rows, 3, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        got, expected = compiled(x), function(y)
        assert_close(got, expected)
        got.sum().backward()
        expected.sum().backward()
        assert_close(x.grad, y.grad)


def test_a_backend_of_ones_own_sees_parameters_that_require_grad():
    seen = []

    def backend(module, example_inputs):
        seen.append([x.requires_grad for x in example_inputs])
        return module.forward

    model = nn.Linear(3, 2)
    eager = copy.deepcopy(model)
    x = torch.randn(4, 3)
    cdynamo.optimize(model, backend=backend)(x).sum().backward()
    eager(x).sum().backward()
    assert sorted(seen[0]) == [False, True, True]
    assert_same_gradients(model, eager)


def test_aot_eager_of_a_numpy_program():
    numpy = pytest.importorskip("numpy")
    x = numpy.arange(4.0)
    assert cdynamo.optimize(lambda x: x * 2 + 1, backend="aot_eager")(x).tolist() == [1, 3, 5, 7]


AFTER_TORCH_COMPILE = """
import torch, cdynamo

torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, target):
        for layer in self.layers[:2]:
            x = layer(x)
        return torch.nn.CrossEntropyLoss()(x, target)


def train(model, optimizer, compiled):
    def step(x, target):
        optimizer.zero_grad()
        loss = model(x, target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = cdynamo.optimize(step) if compiled else step
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        step(torch.randn(5, 4, generator=generator), torch.arange(5) % 4)
    return list(model.parameters())


for make in (torch.optim.SGD, torch.optim.Adam, torch.optim.Adagrad):
    results = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = Model()
        results.append(train(model, make(model.parameters(), lr=0.1), compiled))
    torch.testing.assert_close(*results)
assert cdynamo.counters()["graph_breaks"] == 0, cdynamo.counters()
"""


def test_what_torch_compile_leaves_behind():
    """Its first call replaces Module.__init__ and disables parts of optimizers for the rest of the process."""
    environment = dict(os.environ, CDYNAMO_LOGS="graph_breaks")
    run = subprocess.run([sys.executable, "-c", AFTER_TORCH_COMPILE], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


# What runs in a process of its own: which of the two is loaded, and installed, first.
ONE_INSIDE_THE_OTHER = """
import torch, cdynamo

def leave(x):
    return x * 2

def inside(x):
    y = x + 1
    cdynamo.graph_break()
    y = leave(inner(y))
    return y.sin()

def around(x):
    x = x + 3
    torch._dynamo.graph_break()
    return middle(x) - 1

def conditional(x):
    return torch.cond(x.sum() > 0, lambda x: x.log(), lambda x: x * 0, (x,)).sum()

x = torch.ones(3)
middle = inner = leave
wanted = inside(x), inside(x + 3) - 1
inner = torch.compile(leave, backend="eager")
middle = cdynamo.optimize(inside)
outer = torch.compile(around, backend="eager")
compiled = cdynamo.optimize(conditional)
for order in ORDER:
    for step in order:
        if step == "m": torch.testing.assert_close(middle(x), wanted[0])
        if step == "i": torch.testing.assert_close(inner(x), leave(x))
        if step == "o": torch.testing.assert_close(outer(x), wanted[1])
        if step == "c": torch.testing.assert_close(compiled(x.clone().requires_grad_()), conditional(x))
"""


@pytest.mark.parametrize("order", ["mmiocmoc", "ommoic", "ccomic"])
def test_one_inside_the_other(order):
    """Each is a hook on Python's frames, which hands on to the one before it; both may be before the other."""
    program = ONE_INSIDE_THE_OTHER.replace("ORDER", repr([order, order]))
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
