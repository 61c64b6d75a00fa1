"""__torch_function__ modes that captured code enters: they are handed what eager hands them, and nothing else."""

from __future__ import annotations

import operator

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode  # noqa: E402
from torch.utils._device import DeviceContext  # noqa: E402

import cdynamo  # noqa: E402


class Log(TorchFunctionMode):
    """What it is given, in words."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        names = () if kwargs is None else tuple(kwargs)
        self.calls.append((func, types, len(args), kwargs is None, names))
        return func(*args, **(kwargs or {}))


class Swap(TorchFunctionMode):
    """Gives what another function gives."""

    def __init__(self, swaps):
        super().__init__()
        self.swaps = swaps

    def __torch_function__(self, func, types, args=(), kwargs=None):
        for known, other in self.swaps:
            if func == known:
                return other(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def fresh():
    cdynamo.reset()
    torch.manual_seed(0)


def check(f, *inputs, fullgraph=True):
    expected = f(*inputs)
    fast = cdynamo.optimize(f, fullgraph=fullgraph)
    for _ in range(2):
        torch.testing.assert_close(fast(*inputs), expected, rtol=1e-5, atol=1e-6)
    assert not torch.overrides._get_current_function_mode_stack()


x = torch.linspace(0.2, 2, 4).reshape(2, 2)
i = torch.arange(4).reshape(2, 2)
weight = nn.Parameter(torch.eye(2))
linear = nn.Linear(2, 2)
lstm = nn.LSTM(2, 2)
encoder = nn.TransformerEncoderLayer(2, 1, 4, 0.0, batch_first=True).eval()


def _setitem(t):
    t = t.clone()
    t[0] = 1
    return t


def _no_grad(t):
    with torch.no_grad():
        return t * 2


def _autocast(t):
    with torch.autocast("cpu", torch.bfloat16):
        return t @ t


def _gradient(t):
    w = torch.ones(2, requires_grad=True)
    return torch.autograd.grad((w * t).sum(), w)[0]


OPERATIONS = {
    "function": lambda: torch.sin(x),
    "keyword": lambda: torch.sum(x, dim=0),
    "method": lambda: x.sin(),
    "method_keyword": lambda: x.sum(dim=0),
    "class_method": lambda: torch.Tensor.add(x, 1),
    "add": lambda: x + x,
    "add_number": lambda: x + 2,
    "reflected_add": lambda: 2 + x,
    "reflected_sub": lambda: 2 - x,
    "reflected_div": lambda: 2 / x,
    "floor_div": lambda: x // 2,
    "mod": lambda: x % 2,
    "pow": lambda: x**2,
    "reflected_pow": lambda: 2**x,
    "matmul": lambda: x @ x,
    "and": lambda: i & i,
    "reflected_and": lambda: 1 & i,
    "less": lambda: x < 1,
    "equal": lambda: x == x,
    "not_equal": lambda: x != 1,
    "negative": lambda: -x,
    "invert": lambda: ~i,
    "positive": lambda: +x,
    "absolute": lambda: abs(x),
    "item": lambda: x[0],
    "slice": lambda: x[:, 1:],
    "set_item": lambda: _setitem(x),
    "shape": lambda: x * x.shape[0],
    "dtype": lambda: (x, x.dtype == torch.float32),
    "transposed": lambda: x.T,
    "requires_grad": lambda: (x, x.requires_grad),
    "size": lambda: x * x.size(0),
    "dim": lambda: x * x.dim(),
    "numel": lambda: x * x.numel(),
    "len": lambda: x * len(x),
    "relu": lambda: F.relu(x),
    "softmax": lambda: F.softmax(x, dim=-1),
    "linear": lambda: F.linear(x, weight),
    "layer_norm": lambda: F.layer_norm(x, (2,)),
    "attention": lambda: F.scaled_dot_product_attention(x, x, x),
    "ones": lambda: torch.ones(2),
    "ones_of_dtype": lambda: torch.ones(2, dtype=torch.float64),
    "tensor": lambda: torch.tensor([1.0]),
    "split": lambda: x.split(1),
    "chunk": lambda: torch.chunk(x, 2),
    "norm": lambda: x.norm(),
    "einsum": lambda: torch.einsum("ij,jk->ik", x, x),
    "cat": lambda: torch.cat([x, x]),
    "detach": lambda: x.detach(),
    "to": lambda: x.to(torch.float64),
    "float": lambda: x.float(),
    "parameter": lambda: x + weight,
    "module": lambda: linear(x),
    "no_grad": lambda: _no_grad(x),
    "is_floating_point": lambda: (x, torch.is_floating_point(x)),
    "linalg": lambda: torch.linalg.vector_norm(x),
    "special": lambda: torch.special.expm1(x),
    "device": lambda: torch.ones(2, device=torch.device("cpu")),
    "aten": lambda: torch.ops.aten.sin(x),
    "aten_overload": lambda: torch.ops.aten.sin.default(x),
    "number": lambda: x * x.sum().item(),
    "python_float": lambda: x * float(x.sum()),
    "in_place": lambda: x.clone().add_(1),
    "in_place_operator": lambda: operator.iadd(x.clone(), 1),
    "pool": lambda: F.max_pool2d(x[None], 2),
    "cross_entropy": lambda: F.cross_entropy(x, i[0]),
    "lstm": lambda: lstm(x[:, None])[0],
    "encoder": lambda: encoder(x[None]),
    "made_module": lambda: nn.Linear(2, 2).weight.shape,
    "autocast": lambda: _autocast(x),
    "gradient": lambda: _gradient(x),
}


# Backends in Python get a graph break at these.
NATIVE = {"number", "python_float", "made_module", "gradient"}
NAMES = [pytest.param(name, marks=pytest.mark.native if name in NATIVE else ()) for name in OPERATIONS]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_mode_is_given(name):
    operation = OPERATIONS[name]

    def f(log):
        with log:
            result = operation()
        return result

    wanted = Log()
    expected = f(wanted)
    fast = cdynamo.optimize(f, fullgraph=True)
    for _ in range(2):
        got = Log()
        torch.testing.assert_close(fast(got), expected)
        assert got.calls == wanted.calls


@pytest.mark.parametrize(
    "known, other, operation",
    [
        (torch.sin, torch.cos, torch.sin),
        (torch.Tensor.sin, torch.cos, lambda t: t.sin()),
        (torch.Tensor.add, torch.mul, lambda t: t + 3),
        (torch.Tensor.__rsub__, torch.add, lambda t: 3 - t),
        (F.relu, lambda t, inplace: t.sigmoid(), lambda t: F.relu(t - 1)),
        (torch.Tensor.shape.__get__, lambda t: (7, 7), lambda t: t * t.shape[0]),
        (torch.Tensor.__getitem__, lambda t, key: t, lambda t: t[0]),
    ],
)
def test_another_function_is_called(known, other, operation):
    def f(t):
        with Swap([(known, other)]):
            inside = operation(t)
        return inside, operation(t)

    check(f, x)


def test_methods_that_were_read_outside_are_handed_on():
    def f(t, log):
        sin, size, split, norm = t.sin, t.size, t.split, t.norm
        with log:
            inside = t.cos
            results = sin(), size(), split(1), norm()
        return results, inside(), sin(), size()

    wanted, got = Log(), Log()
    expected = f(x, wanted)
    torch.testing.assert_close(cdynamo.optimize(f, fullgraph=True)(x, got), expected)
    assert got.calls == wanted.calls


def test_modes_are_stacked():
    def f(t):
        outer, inner = Log(), Log()
        with outer:
            with Swap([(torch.sin, torch.cos)]), inner:
                t = torch.sin(t)
            t = t + 1
        return t, len(outer.calls), len(inner.calls)

    check(f, x)


def test_a_mode_that_does_nothing():
    def f(t):
        with BaseTorchFunctionMode():
            return linear(t) + torch.ones(2)

    check(f, x)


def test_a_mode_for_a_device():
    def f(t):
        with DeviceContext(torch.device("cpu")):
            return t + torch.ones(2)

    check(f, x)


def test_the_stack_is_seen():
    def f(t):
        mode = Log()
        with mode:
            top = torch.overrides._get_current_function_mode()
            count = len(torch.overrides._get_current_function_mode_stack())
        return t + 1, top is mode, count

    check(f, x)


def test_an_exception_leaves_the_mode():
    class Refuses(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise ValueError("no")

    def f(t):
        try:
            with Refuses():
                return t.sin()
        except ValueError:
            return t.cos()

    check(f, x)


def test_gradients():
    def f(t):
        with Swap([(torch.Tensor.mul, torch.add), (torch.sin, torch.cos)]):
            return torch.sin(t * 3).sum()

    t = x.clone().requires_grad_()
    wanted = torch.autograd.grad(f(t), t)
    torch.testing.assert_close(torch.autograd.grad(cdynamo.optimize(f, fullgraph=True)(t), t), wanted)


def test_a_region_that_breaks_is_left_to_python():
    def f(t):
        t = t * 2
        with Swap([(torch.sin, torch.cos)]):
            t = torch.sin(t)
            cdynamo.graph_break()
            t = torch.sin(t)
        return torch.sin(t)

    check(f, x, fullgraph=False)


def test_what_takes_functions_is_left_to_python():
    def f(t):
        with Swap([(torch.sin, torch.cos)]):
            return torch.vmap(torch.sin)(t), torch.utils.checkpoint.checkpoint(torch.sin, t, use_reentrant=False)

    check(f, x, fullgraph=False)


@pytest.mark.parametrize(
    "operation",
    [
        lambda t: torch.fft.fft(t).abs(),
        lambda t: torch.cat(tuple(t)),
        lambda t: t if t.sum() > 0 else -t,
        lambda t: max(t.sum(), t.mean()),
    ],
)
def test_what_is_not_handed_on_is_left_to_python(operation):
    def f(t, log):
        with log:
            return operation(t)

    wanted, got = Log(), Log()
    torch.testing.assert_close(cdynamo.optimize(f)(x, got), f(x, wanted))
    assert got.calls == wanted.calls


def test_not_implemented_is_an_error():
    class Nothing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    def f(t):
        with Nothing():
            return torch.sin(t)

    with pytest.raises(TypeError):
        cdynamo.optimize(f)(x)
    assert not torch.overrides._get_current_function_mode_stack()
