"""The tour's models and programs: one graph each, equal to eager; modules stay modules."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from programs import numpy_programs, torch_programs

import cdynamo

torch = pytest.importorskip("torch")
from models import GPT, MLP, resnet18  # noqa: E402


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def close(a, b):
    if isinstance(a, (tuple, list)):
        return all(close(x, y) for x, y in zip(a, b))
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return np.linalg.norm(a - b) <= 1e-5 * np.linalg.norm(b)


@pytest.mark.parametrize(
    "name, function, args",
    [p for p in [*numpy_programs(), *torch_programs()]],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_tour_program_is_one_graph_and_equal(name, function, args, counts):
    fast = cdynamo.optimize(function)
    for _ in range(2):
        assert close(fast(*args), function(*args))
    if "break" not in name:
        assert (counts.graphs_compiled, counts.graph_breaks) == (1, 0)


def test_module_stays_a_module():
    model = MLP().eval()
    fast = cdynamo.optimize(model)
    x = torch.randn(3, 512)
    assert isinstance(fast, MLP) and isinstance(fast, torch.nn.Module)
    assert list(fast.state_dict()) == list(model.state_dict())
    assert fast.a is model.a and type(fast).__name__ == "MLP" and repr(fast) == repr(model)
    fast.train()
    assert model.training
    model.eval()
    assert not fast.training
    assert torch.allclose(fast(x), model(x), atol=1e-5)
    for made in (pickle.loads(pickle.dumps(fast)), copy.deepcopy(fast)):
        assert isinstance(made, MLP) and torch.allclose(made(x), model(x), atol=1e-5)


def test_module_hooks_and_new_weights(counts):
    model = MLP().eval()
    fast = cdynamo.optimize(model)
    x = torch.randn(3, 512)
    fast(x)
    model.c.weight.mul_(2)
    assert torch.allclose(fast(x), model(x), atol=1e-5)
    model.a = torch.nn.Linear(512, 1024)
    assert torch.allclose(fast(x), model(x), atol=1e-5)
    handle = fast.register_forward_hook(lambda module, args, out: out + 1)
    hooked = model(x)
    assert torch.allclose(fast(x), hooked, atol=1e-5)
    handle.remove()
    assert torch.allclose(fast(x), hooked - 1, atol=1e-5)


def test_train_and_eval_are_told_apart():
    class Net(torch.nn.Module):
        def forward(self, x):
            return x * 2 if self.training else x * 3

    model = Net()
    fast = cdynamo.optimize(model)
    x = torch.ones(2)
    assert fast(x).tolist() == [2, 2]
    model.eval()
    assert fast(x).tolist() == [3, 3]


def test_gradients_are_eager_s(counts):
    model = MLP()
    fast = cdynamo.optimize(model)
    x = torch.randn(3, 512)
    with torch.enable_grad():
        fast(x).sum().backward()
    got = model.a.weight.grad.clone()
    model.zero_grad()
    with torch.enable_grad():
        model(x).sum().backward()
    torch.testing.assert_close(got, model.a.weight.grad)
    fast(x)
    assert counts.graphs_compiled == 2  # one with grad mode on, one with it off


def test_resnet18_and_gpt_dynamic_batch(counts):
    model = GPT(layers=2).eval()
    fast = cdynamo.optimize(model)
    for length in (8, 9, 10, 11, 12):
        tokens = torch.randint(0, 1000, (2, length))
        assert close(fast(tokens), model(tokens))
    assert counts.graphs_compiled == 2
    network = resnet18().eval()
    image = torch.randn(2, 3, 64, 64)
    assert close(cdynamo.optimize(network)(image), network(image))


def test_inductor_as_a_backend():
    fast = cdynamo.optimize(lambda x: torch.sin(x) + 1, backend="eager")
    x = torch.randn(5)
    assert torch.equal(fast(x), torch.sin(x) + 1)
    seen = []

    def backend(gm, example_inputs):
        seen.append(gm)
        return gm.forward

    assert torch.equal(cdynamo.optimize(lambda x: torch.sin(x) + 1, backend=backend)(x), torch.sin(x) + 1)
    assert isinstance(seen[0], torch.fx.GraphModule)
    node = next(n for n in seen[0].graph.nodes if n.op == "call_function")
    assert node.target is torch.sin and node.meta["val"].shape == (5,) and "stack_trace" in node.meta
