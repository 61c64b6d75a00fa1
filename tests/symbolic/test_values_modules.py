"""torch.nn.Module as any other object: parameters, buffers, submodules, hooks, state that forward writes."""

from __future__ import annotations

import collections
import copy

import pytest

torch = pytest.importorskip("torch")

import cdynamo  # noqa: E402

nn = torch.nn


def check_module(make, *calls, breaks=0):
    """A module and its copy, compiled and not, called in turn: outputs and state stay equal."""
    cdynamo.reset()
    torch.manual_seed(0)
    eager = make().eval()
    module = copy.deepcopy(eager)
    compiled = cdynamo.optimize(module)
    before = cdynamo.counters()["graph_breaks"]
    with torch.no_grad():
        for args in calls:
            expected, actual = eager(*args), compiled(*args)
            torch.testing.assert_close(actual, expected)
    assert cdynamo.counters()["graph_breaks"] - before == breaks
    for (name, a), (_, b) in zip(eager.state_dict().items(), module.state_dict().items()):
        torch.testing.assert_close(b, a, msg=name)
    plain = lambda m: {k: v for k, v in vars(m).items() if isinstance(v, (int, float, str, list))}
    assert plain(module) == plain(eager)


X = torch.arange(6.0).reshape(2, 3)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.seen = []
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.calls += 1
        self.seen.append(x.shape[0])
        self.total = self.total + x.sum(0)
        return x * self.calls + self.total


class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.named = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.ReLU()})
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(3) * i) for i in (2, 3)])
        self.seq = nn.Sequential(collections.OrderedDict(first=nn.Linear(3, 3), second=nn.Tanh()))
        self.optional = None

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x) + i
        for name, layer in self.named.items():
            x = layer(x) if name != "skip" else x
        for scale in self.scales:
            x = x * scale
        if self.optional is not None:
            x = self.optional(x)
        x = self.seq[0](x) + self.layers[-1](x) + len(self.layers)
        return self.seq(x) if "a" in self.named and hasattr(self, "seq") else x


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x)) if self.a.weight is self.b.weight else x


class Properties(nn.Module):
    limit = 2

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    @property
    def weight(self):
        return self.inner.weight

    def forward(self, x):
        if self.training:
            return x
        return x @ self.weight.t() * self.limit + sum(p.sum() for p in self.parameters())


@pytest.mark.parametrize("make", [Counting, Containers, Tied, Properties])
def test_modules(make):
    check_module(make, (X,), (X,), (X + 1,), (torch.ones(4, 3),))


def test_hooks_are_run_and_seen_when_added():
    module = nn.Linear(3, 3).eval()
    compiled = cdynamo.optimize(module)
    with torch.no_grad():
        before = compiled(X)
        handle = module.register_forward_hook(lambda m, args, out: out * 2)
        torch.testing.assert_close(compiled(X), before * 2)
        pre = module.register_forward_pre_hook(lambda m, args: (args[0] * 0,))
        torch.testing.assert_close(compiled(X), module(X))
        handle.remove()
        pre.remove()
        torch.testing.assert_close(compiled(X), before)


def test_a_replaced_submodule_or_parameter_is_seen():
    module = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).eval()
    compiled = cdynamo.optimize(module)
    with torch.no_grad():
        compiled(X)
        module[1] = nn.Tanh()
        torch.testing.assert_close(compiled(X), module(X))
        module[0].weight = nn.Parameter(torch.ones(3, 3))
        torch.testing.assert_close(compiled(X), module(X))
        module[0].bias = None
        torch.testing.assert_close(compiled(X), module(X))
        module.forward = lambda x: x - 1
        torch.testing.assert_close(compiled(X), X - 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)))
        self.register_buffer("offset", torch.ones(3))

    def forward(self, x):
        x = self.body(x) + self.offset
        if "extra" in self._buffers:
            x = x * self.extra
        return x - 1 if self.training else x


CHANGES = {
    "train below": lambda m: m.body[2].train(),
    "train": lambda m: m.train().body.eval(),
    "register_buffer": lambda m: m.register_buffer("extra", torch.full((3,), 2.0)),
    "replaced buffer": lambda m: setattr(m, "offset", torch.zeros(3)),
    "buffer in place": lambda m: m.offset.mul_(5),
    "register_parameter": lambda m: m.body[0].register_parameter("bias", None),
    "replaced parameter": lambda m: setattr(m.body[2][0], "weight", nn.Parameter(torch.ones(3, 3))),
    "data of a parameter": lambda m: setattr(m.body[0].weight, "data", torch.ones(3, 3)),
    "dtype": lambda m: m.double().float(),
    "replaced module": lambda m: m.body.__setitem__(1, nn.Tanh()),
    "module through its dict": lambda m: m.body._modules.update({"1": nn.Sigmoid()}),
    "added module": lambda m: m.body.append(nn.Linear(3, 3)),
    "deleted module": lambda m: m.body.__delitem__(2),
    "forward of an instance": lambda m: setattr(m.body[1], "forward", lambda x: x * 3),
    "hook": lambda m: m.body[2][0].register_forward_hook(lambda module, args, out: out + 1),
    "attribute": lambda m: setattr(m.body[1], "inplace", True),
    "class": lambda m: setattr(m.body[1], "__class__", nn.Tanh),
    "load_state_dict": lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}),
    "requires_grad_": lambda m: m.requires_grad_(False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_warm_calls_notice_a_change(name):
    torch.manual_seed(0)
    module = Net().eval()
    plain = copy.deepcopy(module)
    compiled = cdynamo.optimize(module)
    with torch.no_grad():
        for _ in range(4):
            compiled(X)
        for m in (module, plain):
            torch.manual_seed(1)
            CHANGES[name](m)
        for _ in range(3):
            torch.manual_seed(2)
            expected = plain(X)
            torch.manual_seed(2)
            torch.testing.assert_close(compiled(X), expected)


def test_a_deep_model_is_captured_quickly():
    module = nn.Sequential(*[nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.GELU()) for _ in range(50)]).eval()
    with torch.no_grad():
        result = cdynamo._C._capture(type(module).forward, (module, X))
        result = cdynamo._C._capture(type(module).forward, (module, X))
    assert result["end"] == "return"
    assert result["captured_in_ns"] < 200e6


def dicts_of_tensors(d, names):
    d["sum"] = d["x"] + d["y"]
    out = {k: v * 2 for k, v in d.items() if k in names}
    return out, [d["sum"], *out.values()], d["x"] is d["x"], "z" in d


def test_tensors_in_containers():
    compiled = cdynamo.optimize(dicts_of_tensors)
    for names in (["x"], ["x", "sum"]):
        a, b = {"x": X, "y": X + 1}, {"x": X, "y": X + 1}
        with torch.no_grad():
            expected, actual = dicts_of_tensors(a, names), compiled(b, names)
        torch.testing.assert_close(actual[0], expected[0])
        torch.testing.assert_close(actual[1], expected[1])
        assert actual[2:] == expected[2:]
        assert list(a) == list(b) and b["sum"] is actual[1][0]
        torch.testing.assert_close(b["sum"], a["sum"])
