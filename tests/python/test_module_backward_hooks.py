"""Full backward hooks of modules: those that only compute with tensors are captured, others are PyTorch's."""

from __future__ import annotations

import warnings

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.modules import module as global_hooks  # noqa: E402
from training_check import assert_close  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.relu, self.b = nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)

    def forward(self, x):
        return self.b(self.relu(self.a(x)).sin())


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x, y, n, mask):
        return torch.where(mask, x * self.weight, x), (y + x) * n, "text", mask


class OfPair(nn.Module):
    """One of the arguments requires no gradient where the input does not; the others are no floats."""

    def __init__(self, combine=lambda a, b: a * b + a) -> None:
        super().__init__()
        self.pair, self.linear, self.combine = Pair(), nn.Linear(4, 4), combine

    def forward(self, x):
        a, b, *_ = self.pair(self.linear(x), x.cos(), 2, x > 0)
        return self.combine(a, b)


# ---- hooks


def doubled(module, grad_input, grad_output):
    return tuple(g * 2 if isinstance(g, torch.Tensor) and g.is_floating_point() else g for g in grad_input)


def with_outputs(module, grad_input, grad_output):
    """Of zeros something else, so that it is seen whether it is called, and with what."""
    known = [g for g in grad_output if g is not None and g.shape]
    added = sum(h.clamp(-0.1, 0.1) + 0.01 for h in known)
    return tuple(g + added if isinstance(g, torch.Tensor) and g.is_floating_point() else g for g in grad_input)


def of_a_deconvolution(module, grad_input, grad_output):
    return (grad_output[0].clamp(min=0),)


def nothing(module, grad_input, grad_output):
    grad_input[0].sum()


def tripled_before(module, grad_output):
    return tuple(None if g is None else g * 3 + 0.1 for g in grad_output)


def hook_relu(net):
    return [net.relu.register_full_backward_hook(doubled)]


PROGRAMS = {
    "doubled": (Net, hook_relu),
    "nothing": (Net, lambda net: [net.relu.register_full_backward_hook(nothing)]),
    "deconvolution": (Net, lambda net: [net.relu.register_full_backward_hook(of_a_deconvolution)]),
    "of_outputs": (Net, lambda net: [net.b.register_full_backward_hook(with_outputs)]),
    "in_order": (
        Net,
        lambda net: [
            net.relu.register_full_backward_hook(with_outputs),
            net.relu.register_full_backward_hook(doubled),
            net.relu.register_full_backward_hook(with_outputs, prepend=True),
        ],
    ),
    "before": (Net, lambda net: [net.b.register_full_backward_pre_hook(tripled_before)]),
    "before_and_after": (
        Net,
        lambda net: [
            net.b.register_full_backward_pre_hook(tripled_before),
            net.b.register_full_backward_hook(with_outputs),
        ],
    ),
    "nested": (
        Net,
        lambda net: [
            net.register_full_backward_hook(doubled),
            net.relu.register_full_backward_hook(with_outputs),
            net.b.register_full_backward_hook(doubled),
            net.register_full_backward_pre_hook(tripled_before),
        ],
    ),
    "global": (Net, lambda net: [global_hooks.register_module_full_backward_hook(with_outputs)]),
    "global_before": (
        Net,
        lambda net: [
            global_hooks.register_module_full_backward_pre_hook(tripled_before),
            net.relu.register_full_backward_hook(doubled),
        ],
    ),
    "pair": (OfPair, lambda net: [net.pair.register_full_backward_hook(doubled)]),
    "pair_of_outputs": (OfPair, lambda net: [net.pair.register_full_backward_hook(with_outputs)]),
    "pair_before": (
        OfPair,
        lambda net: [
            net.pair.register_full_backward_pre_hook(tripled_before),
            net.pair.register_full_backward_hook(with_outputs),
        ],
    ),
    "one_of_pair": (
        lambda: OfPair(lambda a, b: a.exp()),
        lambda net: [net.pair.register_full_backward_hook(with_outputs)],
    ),
    "detached": (
        lambda: OfPair(lambda a, b: a * b.detach() + b.round()),
        lambda net: [net.pair.register_full_backward_hook(with_outputs)],
    ),
}


def run(make, register, function, requires_grad=True, steps=3):
    """Results and gradients of some steps, the hooks removed before the last one."""
    torch.manual_seed(1)
    net = make()
    handles = register(net)
    called = function(net)
    seen = []
    try:
        for step in range(steps):
            if step == steps - 1:
                for handle in handles:
                    handle.remove()
            x = torch.randn(3, 4, requires_grad=requires_grad)
            net.zero_grad()
            result = called(x)
            result.square().sum().backward()
            seen += [result, x.grad, *(p.grad for p in net.parameters())]
    finally:
        for handle in handles:
            handle.remove()
    return seen


def check(make, register, **options):
    expected = run(make, register, lambda net: net, options.pop("requires_grad", True))
    got = run(make, register, lambda net: cdynamo.optimize(net, **options), expected[1] is not None)
    for i, (ours, eagers) in enumerate(zip(got, expected)):
        assert_close(ours, eagers, str(i))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.native
def test_in_one_graph(name):
    check(*PROGRAMS[name], fullgraph=True)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name):
    check(*PROGRAMS[name])
    check(*PROGRAMS[name], requires_grad=False)


@pytest.mark.native
def test_no_gradient_and_no_grad_mode():
    net = Net()
    net.relu.register_full_backward_hook(doubled)
    net.register_full_backward_hook(doubled)
    x = torch.randn(3, 4, requires_grad=True)
    with torch.no_grad():
        assert_close(cdynamo.optimize(net, fullgraph=True)(x), net(x))
    for p in net.parameters():
        p.requires_grad_(False)
    assert_close(cdynamo.optimize(net, fullgraph=True)(x.detach()), net(x.detach()))


@pytest.mark.native
def test_gradients_of_some_inputs_and_results():
    """A hook is called where a gradient comes to a result and goes on to an argument."""

    class Apart(nn.Module):
        def forward(self, x, y):
            return x.sin(), y.detach().cos() * x.sum().detach() + y * 0, x.detach() * 3

    module = Apart()
    module.register_full_backward_hook(with_outputs)
    compiled = cdynamo.optimize(module, fullgraph=True)
    x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    for asked in ((0,), (1,), (0, 1)):
        gradients = [
            torch.autograd.grad([f(x, y)[i].sum() for i in asked], (x, y), allow_unused=True)
            for f in (compiled, module)
        ]
        for ours, eagers in zip(*gradients):
            assert_close(ours, eagers, str(asked))


def logged(log):
    def hook(module, grad_input, grad_output):
        log.append((type(module).__name__, [g if g is None else g.clone() for g in (*grad_input, *grad_output)]))

    return hook


@pytest.mark.parametrize("make", [Net, OfPair])
@pytest.mark.parametrize("requires_grad", [True, False])
def test_hooks_with_effects_are_called(make, requires_grad):
    logs = []

    def register(net):
        logs.append([])
        return [m.register_full_backward_hook(logged(logs[-1])) for m in net.modules()]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check(make, register, requires_grad=requires_grad)
    theirs, ours = logs
    assert len(ours) == len(theirs) > 0
    for (name, got), (expected_name, expected) in zip(ours, theirs):
        assert name == expected_name
        for a, b in zip(got, expected):
            assert_close(a, b, name)
    told = [w for w in caught if "Full backward hook is firing" in str(w.message)]
    assert bool(told) is not requires_grad and len(told) % 2 == 0


def test_a_module_that_keeps_a_gradient():
    def keep(module, grad_input, grad_output):
        module.kept = grad_output[0]

    nets = []

    def register(net):
        nets.append(net)
        return [net.b.register_full_backward_hook(keep)]

    check(Net, register)
    assert_close(nets[1].b.kept, nets[0].b.kept)


def test_a_list_of_the_compiled_function_is_written_in_the_backward():
    def step(net, x):
        log = []
        handle = net.relu.register_full_backward_hook(lambda m, gi, go: log.append(gi[0]))
        result = net(x).sum()
        handle.remove()
        return result, log

    net, x = Net(), torch.randn(3, 4)
    logs = []
    for f in (step, cdynamo.optimize(step)):
        result, log = f(net, x)
        assert not log
        result.backward()
        logs.append(log)
    assert_close(logs[1][0], logs[0][0])


ERRORS = {
    "too_many": lambda module, grad_input, grad_output: (*grad_input, None),
    "raises": lambda module, grad_input, grad_output: grad_input[0].no_such_method(),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_eagers(name):
    messages = []
    for make in (lambda net: net, cdynamo.optimize):
        net = Net()
        net.relu.register_full_backward_hook(ERRORS[name])
        with pytest.raises((RuntimeError, AttributeError)) as error:
            make(net)(torch.randn(3, 4)).sum().backward()
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_a_write_to_what_the_hooks_have_made_is_eagers_error():
    """Eager's are views of a custom Function, which PyTorch does not let be written to."""

    class Inplace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu, self.linear = nn.ReLU(inplace=True), nn.Linear(4, 4)

        def forward(self, x):
            return self.relu(self.linear(x))

    for which in ("relu", "linear"):
        net = Inplace()
        getattr(net, which).register_full_backward_hook(doubled)
        for f in (net, cdynamo.optimize(net)):
            with pytest.raises(RuntimeError, match="BackwardHookFunction.* is a view and is being modified inplace"):
                f(torch.randn(3, 4))


def test_a_backward_in_the_compiled_function():
    def step(net, x):
        net(x).square().sum().backward()

    gradients = []
    for f in (step, cdynamo.optimize(step)):
        torch.manual_seed(2)
        net, x = Net(), torch.randn(3, 4)
        net.relu.register_full_backward_hook(with_outputs)
        f(net, x)
        gradients.append([p.grad for p in net.parameters()])
    for ours, eagers in zip(*gradients):
        assert_close(ours, eagers)


@pytest.mark.native
def test_the_break_says_why():
    net = Net()
    net.a.register_full_backward_hook(doubled)
    with pytest.raises(cdynamo.GraphBreakError, match="no argument of the module requires a gradient"):
        cdynamo.optimize(net, fullgraph=True)(torch.randn(3, 4))
    log = []
    net.relu.register_full_backward_hook(logged(log))
    with pytest.raises(cdynamo.GraphBreakError, match="a backward hook of a module"):
        cdynamo.optimize(net, fullgraph=True)(torch.randn(3, 4, requires_grad=True))


@pytest.mark.native
def test_sizes_that_change_and_modules_that_are_called_twice():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(self.linear(x).tanh() + x)

    net = Twice()
    net.linear.register_full_backward_hook(with_outputs)
    compiled = cdynamo.optimize(net, fullgraph=True)
    for n in (3, 5, 7, 9):
        x = torch.randn(n, 4, requires_grad=True)
        gradients = [torch.autograd.grad(f(x).square().sum(), (x, net.linear.weight)) for f in (compiled, net)]
        for ours, eagers in zip(*gradients):
            assert_close(ours, eagers, str(n))


@pytest.mark.native
def test_under_autocast_and_in_a_checkpoint():
    from torch.utils.checkpoint import checkpoint

    net = Net()
    net.relu.register_full_backward_hook(with_outputs)
    x = torch.randn(3, 4, requires_grad=True)

    def in_a_checkpoint(x):
        return checkpoint(net, x, use_reentrant=False).sin()

    def under_autocast(x):
        with torch.autocast("cpu"):
            return net(x).float()

    for function, tolerance in ((in_a_checkpoint, 1e-5), (under_autocast, 3e-2)):
        gradients = []
        for f in (cdynamo.optimize(function), function):
            gradients.append(torch.autograd.grad(f(x).sum(), (x, net.a.weight)))
        for ours, eagers in zip(*gradients):
            torch.testing.assert_close(ours, eagers, rtol=tolerance, atol=tolerance)
