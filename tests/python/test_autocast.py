"""torch.autocast for the CPU: around a compiled function and inside of it, in inference and in training."""

from __future__ import annotations

import copy
import functools
import warnings

import pytest

import cdynamo

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from training_check import assert_same  # noqa: E402

compare = functools.partial(assert_same, rtol=3e-2, atol=3e-2)  # half types round where fusion does not
DTYPES = [torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
    yield
    assert not torch.is_autocast_enabled("cpu")
    assert torch.get_autocast_dtype("cpu") == torch.bfloat16
    assert torch.is_autocast_cache_enabled()
    assert torch.autocast_increment_nesting() == 1
    assert torch.autocast_decrement_nesting() == 0


def check(function, *args, breaks=0):
    """The compiled function equals eager: results and their dtypes, without and with gradients."""
    with torch.no_grad():
        expected = function(*args)
        fast = cdynamo.optimize(function)
        before = cdynamo.counters()
        for _ in range(2):
            compare(fast(*args), expected)
        after = cdynamo.counters()
    assert after["graphs_compiled"] > before["graphs_compiled"]
    assert (after["graph_breaks"] - before["graph_breaks"] > 0) == bool(breaks)
    if not breaks:
        assert after["graphs_compiled"] - before["graphs_compiled"] == 1
    return expected


def gradients(model, function, x):
    model.zero_grad()
    x = x.clone().requires_grad_()
    out = function(x)
    (out[0] if isinstance(out, tuple) else out).float().square().sum().backward()
    return [out, x.grad, *(p.grad for p in model.parameters())]


def check_training(model, x, dtype=torch.bfloat16, around=True, function=None):
    """One compiled graph has eager's results, gradients and dtypes; `function(model, x)` defaults to the call."""
    function = function or (lambda model, x: model(x))
    twin = copy.deepcopy(model)
    fast = cdynamo.optimize(function)

    def run(f, m):
        def call(x):
            if not around:
                return f(m, x)
            with torch.autocast("cpu", dtype=dtype):
                return f(m, x)

        return gradients(m, call, x)

    before = cdynamo.counters()
    for _ in range(2):
        compare(run(fast, twin), run(function, model))
    after = cdynamo.counters()
    assert after["graphs_compiled"] > before["graphs_compiled"]
    assert after["graph_breaks"] == before["graph_breaks"]


def mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        q, k, v = (t.view(2, 6, 4, 4).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(2, 6, 16))


MODELS = {
    "mlp": (mlp, (5, 8)),
    "conv": (ConvNet, (2, 3, 6, 6)),
    "attention": (Attention, (2, 6, 16)),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_models_inside(name, dtype):
    make, shape = MODELS[name]
    model = make().eval()

    def function(x):
        with torch.autocast("cpu", dtype=dtype):
            y = model(x)
        return y, x + 1

    check(function, torch.randn(shape))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_models_around(name, dtype):
    make, shape = MODELS[name]
    model = make().eval()
    with torch.autocast("cpu", dtype=dtype):
        assert check(model, torch.randn(shape)).dtype == dtype


@pytest.mark.parametrize("around", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_training(name, around):
    make, shape = MODELS[name]

    def inside(model, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    check_training(make(), torch.randn(shape), around=around, function=None if around else inside)


def test_cross_entropy_in_training():
    target = torch.tensor([0, 3, 1, 2, 2])

    def step(model, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(x)
            return F.cross_entropy(logits, target), logits

    check_training(mlp(), torch.randn(5, 8), around=False, function=step)


def test_encoder_layer_in_training():
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    check_training(layer, torch.randn(2, 6, 16))


def test_disabled_region_inside():
    def function(a, b):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            c = a @ b
            with torch.autocast("cpu", enabled=False):
                d = a @ c.float()
                e = torch.is_autocast_enabled("cpu")
            return c, d, d @ a, e, torch.is_autocast_enabled("cpu")

    check(function, torch.randn(4, 4), torch.randn(4, 4))
    with torch.autocast("cpu", dtype=torch.float16):
        check(function, torch.randn(4, 4), torch.randn(4, 4))


def test_dtype_of_a_nested_region():
    def function(a):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            b = a @ a
            with torch.autocast("cpu", dtype=torch.float16):
                c = a @ b
            return b, c, a @ c, torch.get_autocast_dtype("cpu")

    check(function, torch.randn(4, 4))


def test_as_a_decorator():
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def function(a):
        return torch.mm(a, a)

    assert check(function, torch.randn(4, 4)).dtype == torch.bfloat16
    assert check(lambda a: function(a) + a, torch.randn(4, 4)).dtype == torch.float32


def test_an_instance_from_outside():
    region = torch.autocast("cpu", dtype=torch.bfloat16)

    def function(a):
        with region:
            return a @ a

    check(function, torch.randn(4, 4))


def test_toggled_between_calls():
    a = torch.randn(4, 4)
    function = lambda a: (a @ a).exp()
    fast, before = cdynamo.optimize(function), cdynamo.counters()["graphs_compiled"]
    with torch.no_grad():
        for _ in range(2):
            for dtype in (None, *DTYPES):
                with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
                    got, expected = fast(a), function(a)
                assert got.dtype == expected.dtype == (dtype or torch.float32)
                torch.testing.assert_close(got, expected, rtol=5e-2, atol=5e-2)
    assert cdynamo.counters()["graphs_compiled"] - before == 3


def test_default_dtype_is_guarded():
    def function(a):
        with torch.autocast("cpu"):
            return a @ a

    fast, a = cdynamo.optimize(function), torch.randn(4, 4)
    try:
        for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
            torch.set_autocast_dtype("cpu", dtype)
            assert fast(a).dtype == dtype
    finally:
        torch.set_autocast_dtype("cpu", torch.bfloat16)


def test_break_inside():
    def function(a):
        with torch.autocast("cpu", dtype=torch.float16):
            b = a @ a
            text = "%s" % (b.sum().item() ** 2 > 1e6)
            cdynamo.graph_break()
            c = a @ a.T
            state = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        return b, text, c, a @ a, state

    check(function, torch.randn(4, 4), breaks=1)

    def explicit(a):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            b = a @ a
            cdynamo.graph_break()
            c = a @ b
            with torch.autocast("cpu", enabled=False):
                cdynamo.graph_break()
                d = a @ a
        return b, c, d, a @ a

    check(explicit, torch.randn(4, 4), breaks=1)


def test_exception_inside():
    def function(a):
        try:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                b = a @ a
                raise ValueError
        except ValueError:
            return b, a @ a

    check(function, torch.randn(4, 4))

    def escapes(a):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a @ a
            raise ValueError

    with pytest.raises(ValueError):
        cdynamo.optimize(escapes)(torch.randn(4, 4))


def test_mode_that_is_left_on():
    def function(a):
        torch.set_autocast_enabled("cpu", True)
        torch.set_autocast_dtype("cpu", torch.float16)
        return a @ a

    fast, a = cdynamo.optimize(function), torch.randn(4, 4)
    try:
        for _ in range(2):
            torch.set_autocast_enabled("cpu", False)
            assert fast(a).dtype == torch.float16
            assert torch.is_autocast_enabled("cpu")
            assert torch.get_autocast_dtype("cpu") == torch.float16
    finally:
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_dtype("cpu", torch.bfloat16)


INDEX = torch.zeros(4, dtype=torch.long)
OPERATORS = {
    "matmul": lambda a: torch.matmul(a, a),
    "rmatmul": lambda a: a.T @ a,
    "mm": lambda a: a.mm(a),
    "mv": lambda a: torch.mv(a, a[0]),
    "dot": lambda a: torch.dot(a[0], a[0]),
    "bmm": lambda a: torch.bmm(a[None], a[None]),
    "addmm": lambda a: torch.addmm(a, a, a),
    "baddbmm": lambda a: torch.baddbmm(a[None], a[None], a[None]),
    "addbmm": lambda a: torch.addbmm(a, a[None], a[None]),
    "inner": lambda a: torch.inner(a, a),
    "inner_scalar": lambda a: torch.inner(a, a[0, 0]),
    "vecdot": lambda a: torch.linalg.vecdot(a, a),
    "einsum": lambda a: torch.einsum("ij,jk->ik", a, a),
    "kron": lambda a: torch.kron(a, a),
    "outer": lambda a: torch.outer(a[0], a[0]),
    "prelu": lambda a: F.prelu(a, a[0, :1]),
    "linear": lambda a: F.linear(a, a, a[0]),
    "conv1d": lambda a: F.conv1d(a[None], a[..., None], a[0]),
    "conv_transpose1d": lambda a: F.conv_transpose1d(a[None], a[..., None]),
    "prod": lambda a: a.prod(),
    "prod_dim": lambda a: a.prod(0),
    "trace": lambda a: a.trace(),
    "softmax": lambda a: a.softmax(0),
    "log_softmax": lambda a: a.log_softmax(0),
    "layer_norm": lambda a: F.layer_norm(a, (4,)),
    "group_norm": lambda a: F.group_norm(a[None], 2),
    "mse": lambda a: F.mse_loss(a, a + 1),
    "l1": lambda a: F.l1_loss(a, a + 1),
    "smooth_l1": lambda a: F.smooth_l1_loss(a, a + 1),
    "huber": lambda a: F.huber_loss(a, a + 1),
    "soft_margin": lambda a: F.soft_margin_loss(a, a.sign()),
    "multi_margin": lambda a: F.multi_margin_loss(a, INDEX),
    "hinge": lambda a: F.hinge_embedding_loss(a, a.sign()),
    "poisson": lambda a: F.poisson_nll_loss(a, a.abs()),
    "nll": lambda a: F.nll_loss(a, INDEX),
    "nll2d": lambda a: F.nll_loss(a[None, :, :, None], INDEX[None, :, None]),
    "cross_entropy": lambda a: F.cross_entropy(a, INDEX),
    "bce": lambda a: F.binary_cross_entropy(a.sigmoid(), a.sigmoid()),
    "bce_logits": lambda a: F.binary_cross_entropy_with_logits(a, a.sigmoid()),
    "kl_div": lambda a: F.kl_div(a, a.exp()),
    "margin_ranking": lambda a: F.margin_ranking_loss(a, a + 1, a.sign()),
    "cosine_embedding": lambda a: F.cosine_embedding_loss(a, a + 1, a[0].sign()),
    "cosine_similarity": lambda a: F.cosine_similarity(a, a),
    "cdist": lambda a: torch.cdist(a, a + 1),
    "norm": lambda a: a.norm(),
    "pad_constant": lambda a: F.pad(a, (1, 1)),
    "pad_reflect": lambda a: F.pad(a[None], (1, 1), mode="reflect"),
    "pad_replicate": lambda a: F.pad(a[None], (1, 1), mode="replicate"),
    "pad_circular": lambda a: F.pad(a[None], (1, 1), mode="circular"),
    "avg_pool3d": lambda a: F.avg_pool3d(a[None, None, None], (1, 2, 2)),
    "max_pool3d": lambda a: F.max_pool3d(a[None, None, None], (1, 2, 2)),
    "adaptive_avg_pool3d": lambda a: F.adaptive_avg_pool3d(a[None, None, None], 1),
    "avg_pool2d": lambda a: F.avg_pool2d(a[None], 2),
    "max_pool2d": lambda a: F.max_pool2d(a[None], 2),
    "cat": lambda a: torch.cat([a, a.float()]),
    "cat_same": lambda a: torch.cat([a, a]),
    "stack": lambda a: torch.stack([a, a.float()]),
    "stack_of_integers": lambda a: torch.stack([INDEX, INDEX]),
    "hstack": lambda a: torch.hstack([a, a.float()]),
    "vstack": lambda a: torch.vstack([a, a.float()]),
    "index_copy": lambda a: torch.index_copy(a, 0, INDEX[:1], a[:1].float()),
    "sum": lambda a: a.sum(),
    "pow": lambda a: a.abs().pow(2.5),
    "attention": lambda a: F.scaled_dot_product_attention(a[None], a[None], a[None]),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_policy(name, dtype):
    function, a = OPERATORS[name], torch.randn(4, 4).to(dtype)
    fast = cdynamo.optimize(function)
    with torch.no_grad(), warnings.catch_warnings(), torch.autocast("cpu", dtype=torch.bfloat16):
        warnings.simplefilter("ignore")
        try:
            expected = function(a)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                fast(a)
            return
        compare(fast(a), expected)


def test_operators_that_multiply():
    """Contractions without a sum are products in eager, which autocast leaves alone."""
    for equation in ("ij,ij->ij", "i,j->ij"):
        a = torch.randn(4, 4) if equation[1] == "j" else torch.randn(4)
        fast = cdynamo.optimize(lambda a, equation=equation: torch.einsum(equation, a, a))
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            assert fast(a).dtype == torch.float32


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU, nn.RNN, nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_recurrent(make):
    model, x = make(4, 4), torch.randn(3, 4)
    fast = cdynamo.optimize(model)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        try:
            expected = model(x)
        except RuntimeError as error:  # oneDNN has none for this processor: the same error
            assert "could not create a primitive" in str(error)
            with pytest.raises(RuntimeError, match="could not create a primitive"):
                fast(x)
            return
        compare(fast(x), expected)


def test_multi_head_attention():
    model, x = nn.MultiheadAttention(16, 4, batch_first=True).eval(), torch.randn(2, 6, 16)
    encoder = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    for function in (lambda x: model(x, x, x), encoder):
        fast = cdynamo.optimize(function)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            compare(fast(x), function(x))


def test_backend_in_python():
    def function(a):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return a @ a

    a = torch.randn(4, 4)
    for f in (function, lambda a: a @ a):
        fast = cdynamo.optimize(f, backend="eager")
        with torch.no_grad():
            compare(fast(a), f(a))
            with torch.autocast("cpu", dtype=torch.float16):
                compare(fast(a), f(a))


def test_autocast_of_another_device():
    def function(a):
        return a @ a, torch.is_autocast_enabled(), torch.is_autocast_enabled("cuda")

    fast, a = cdynamo.optimize(function), torch.randn(4, 4)
    torch.set_autocast_enabled("cuda", True)
    try:
        compare(fast(a), function(a))
    finally:
        torch.set_autocast_enabled("cuda", False)
    compare(fast(a), function(a))


@pytest.mark.parametrize("kind", ["GRU", "RNN", "GRUCell", "LSTMCell", "RNNCell"])
def test_recurrent_layers(kind):
    """As near to what float32 gives as eager is, over several layers, in eager's dtypes."""

    def errors(seed):
        torch.manual_seed(seed)
        layer = getattr(nn, kind)(8, 16)
        x = torch.randn(5, 8) if kind.endswith("Cell") else torch.randn(6, 5, 8)

        def function(x, enabled=True):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
                out = layer(x)
            return out if isinstance(out, torch.Tensor) else out[0]

        def results(f, *args):
            layer.zero_grad()
            out = f(x, *args)
            out.float().square().sum().backward()
            return [out.detach(), *(p.grad for p in layer.parameters())]

        exact, eager = results(function, False), results(function)
        before = cdynamo.counters()["graph_breaks"]
        compiled = results(cdynamo.optimize(function))
        assert cdynamo.counters()["graph_breaks"] == before
        assert [ours.dtype for ours in compiled] == [theirs.dtype for theirs in eager]
        sizes = [true.norm().clamp_min(1e-9) for true in exact]
        return [
            [(result.float() - true).norm() / size for result, true, size in zip(found, exact, sizes)]
            for found in (compiled, eager)
        ]

    ours, theirs = torch.tensor([errors(seed) for seed in range(6)]).mean(0)
    assert (ours <= 1.25 * theirs + 1e-6).all()
