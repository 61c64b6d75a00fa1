"""What capture knows of CUDA devices: PyTorch's operators as nodes, attention, tensors that move, autocast, whole steps. Equal to
eager, and one graph where nothing else is said."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import cdynamo  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.native,
]
DEVICE = "cuda:0"


def randn(*sizes, dtype=torch.float32, grad=False):
    return torch.randn(*sizes, dtype=dtype, device=DEVICE, requires_grad=grad)


def assert_equal(got, want, **tolerances):
    torch.testing.assert_close(got, want, **tolerances)
    for x, y in zip(tensors(got), tensors(want), strict=True):
        assert x.device == y.device and x.stride() == y.stride()


def tensors(result):
    return [t for item in result for t in tensors(item)] if isinstance(result, (tuple, list)) else [result]


def run_seeded(function, *args):
    torch.manual_seed(3)
    return function(*args)


def check(function, *args, breaks=0, graphs=1, calls=2, **tolerances):
    """Results, and the gradients of what requires grad."""
    before = cdynamo.counters()
    compiled = cdynamo.optimize(function)
    for _ in range(calls):
        want, got = run_seeded(function, *args), run_seeded(compiled, *args)
        assert_equal(got, want, **tolerances)
        leaves = [x for x in args if isinstance(x, torch.Tensor) and x.requires_grad]
        if leaves:
            outs = [[t for t in tensors(result) if t.requires_grad] for result in (got, want)]
            assert len(outs[0]) == len(outs[1]) > 0
            seeds = [torch.randn_like(t) for t in outs[1]]
            found = [torch.autograd.grad(o, leaves, seeds, allow_unused=True) for o in outs]
            for x, y in zip(*found, strict=True):
                assert (x is None) == (y is None)
                if x is not None:
                    torch.testing.assert_close(x, y, **tolerances)
                    assert x.device == y.device
    after = cdynamo.counters()
    assert after["graph_breaks"] - before["graph_breaks"] == breaks
    if not breaks:
        assert after["graphs_compiled"] - before["graphs_compiled"] == graphs


# ---- PyTorch's own operators as nodes

LIBRARY = {
    "inverse": lambda x: torch.linalg.inv(x @ x.T + torch.eye(6, device=DEVICE)) + 1,
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.T + torch.eye(6, device=DEVICE)) * 2,
    "sort": lambda x: (x * 2).sort(dim=1).values + 1,
    "special": lambda x: torch.special.i1(x) + torch.i0(x.T),
    "grid": lambda x: F.grid_sample(x[None, None], x.tanh()[None, None, :, :2], align_corners=False),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_operators_without_an_entry_are_nodes(name):
    check(LIBRARY[name], randn(6, 6), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["inverse", "sort", "grid"])
def test_operators_without_an_entry_have_derivatives(name):
    check(LIBRARY[name], randn(6, 6, grad=True), rtol=1e-4, atol=1e-4)


# ---- attention


def attention(q, k, v, mask=None, dropout=0.0, causal=False, scale=None, gqa=False):
    return F.scaled_dot_product_attention(
        q * 1.5, k, v, mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=gqa
    )


def heads(batch, count, length, size, dtype, grad):
    """As models have them: (batch, length, heads, size), transposed."""
    return randn(batch, length, count, size, dtype=dtype).transpose(1, 2).requires_grad_(grad)


TOLERANCES = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-4},
    torch.float16: {"rtol": 1e-2, "atol": 1e-2},
    torch.bfloat16: {"rtol": 4e-2, "atol": 4e-2},
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("variant", ["plain", "causal", "mask", "bool mask", "odd heads", "dropout", "scale", "gqa"])
def test_attention_is_eager_s(variant, dtype, grad):
    size = 20 if variant == "odd heads" else 64
    q, k, v = (heads(2, 4, 33, size, dtype, grad) for _ in range(3))
    options = {"dropout": 0.3 if variant == "dropout" else 0.0, "causal": variant in ("causal", "dropout")}
    mask = None
    if variant == "mask":
        mask = randn(2, 1, 33, 33, dtype=dtype)
    elif variant == "bool mask":
        mask = torch.rand(2, 1, 33, 33, device=DEVICE) > 0.3
        mask[..., 0] = True
    elif variant == "scale":
        options["scale"] = 0.3
    elif variant == "gqa":
        k, v = (heads(2, 2, 33, size, dtype, grad) for _ in range(2))
        options["gqa"] = True
    check(lambda q, k, v: attention(q, k, v, mask, **options), q, k, v, **TOLERANCES[dtype])


@pytest.mark.parametrize("backend", ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH", "CUDNN_ATTENTION"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_attention_by_each_of_eager_s_kernels(backend, dropout):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (heads(2, 4, 64, 64, torch.bfloat16, True) for _ in range(3))
    compiled = cdynamo.optimize(lambda q, k, v: attention(q, k, v, dropout=dropout))
    for chosen in (backend, "FLASH_ATTENTION"):  # the choice changes: another kernel is compiled
        with sdpa_kernel(getattr(SDPBackend, chosen)):
            want = run_seeded(attention, q, k, v, None, dropout)
            got = run_seeded(compiled, q, k, v)
            torch.testing.assert_close(got, want, **TOLERANCES[torch.bfloat16])
            seed = torch.randn_like(want)
            for x, y in zip(
                torch.autograd.grad(got, (q, k, v), seed), torch.autograd.grad(want, (q, k, v), seed), strict=True
            ):
                torch.testing.assert_close(x, y, **TOLERANCES[torch.bfloat16])


def test_attention_of_lengths_that_change():
    before = cdynamo.counters()
    compiled = cdynamo.optimize(attention, dynamic=True)
    for length in (5, 9, 40, 33):
        q, k, v = (heads(2, 4, length, 64, torch.bfloat16, False) for _ in range(3))
        torch.testing.assert_close(compiled(q, k, v), attention(q, k, v), **TOLERANCES[torch.bfloat16])
    assert cdynamo.counters()["graphs_compiled"] - before["graphs_compiled"] == 1


# ---- from device to device

CPU = torch.device("cpu")
MOVES = {
    "to a device": (lambda x: (x * 2).to(DEVICE) + 1, lambda: torch.randn(5, 7)),
    "to the current device": (lambda x: (x * 2).to("cuda").sin(), lambda: torch.randn(5, 7)),
    "cuda": (lambda x: x.cuda() * 3, lambda: torch.randn(5, 7)),
    "cuda with a number": (lambda x: x.cuda(0, non_blocking=True) * 3, lambda: torch.randn(5, 7)),
    "cpu": (lambda x: x.sin().cpu() * 3, lambda: randn(5, 7)),
    "there and back": (lambda x: (x.to(DEVICE) @ x.to(DEVICE).T).cpu().exp() + x.sum(), lambda: torch.randn(5, 7)),
    "with a dtype": (lambda x: x.to(DEVICE, torch.bfloat16).float().cpu(), lambda: torch.randn(5, 7)),
    "to another's": (lambda x: torch.ones(5, 7).to(x) + x, lambda: randn(5, 7)),
    "to where it is": (lambda x: x.to(DEVICE) + x.cuda(), lambda: randn(5, 7)),
    "transposed": (lambda x: x.T.to(DEVICE) * 2, lambda: torch.randn(5, 7)),
    "copy_": (lambda x: torch.zeros(5, 7).copy_(x) + 1, lambda: randn(5, 7)),
    "empty": (lambda x: x.to(DEVICE) * 2, lambda: torch.randn(0, 7)),
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("grad", [False, True])
def test_tensors_move(name, grad):
    function, make = MOVES[name]
    check(function, make().requires_grad_(grad))


def test_moved_tensors_are_copies_and_those_at_home_are_not():
    x, y = torch.randn(3), randn(3)

    def move(x, y):
        return x.to(DEVICE), y.to(DEVICE), x.cpu()

    there, same, home = cdynamo.optimize(move)(x, y)
    assert same is y and home is x and there.device == y.device


FACTORIES = {
    "tensor": lambda x: torch.tensor([1.0, 2.0, 3.0], device=x.device) * x,
    "number": lambda x: torch.tensor(2.5, device="cuda") * x,
    "arange": lambda x: torch.arange(3, device=x.device) + x,
    "zeros": lambda x: torch.zeros(3, device="cuda") + x,
    "full": lambda x: torch.full((3,), 2.0, device=x.device) + x,
    "new": lambda x: x.new_tensor([1, 2, 3]) + x.new_zeros(3),
    "as_tensor": lambda x: torch.as_tensor([1.0, 2.0, 3.0], device=x.device) + torch.as_tensor(x, device="cuda"),
    "like, elsewhere": lambda x: (torch.zeros_like(x, device="cpu") + 1, x),
    "numbers of the cpu": lambda x: x * torch.tensor(2.0) + torch.tensor(3),
    "filled": lambda x: x.clone().fill_(torch.tensor(2.0)) + x,
    "masked": lambda x: x.masked_fill(x > 0, torch.tensor(-1.0)),
    "where": lambda x: torch.where(x > 0, x, torch.tensor(-1.0)),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_tensors_are_made_on_devices(name):
    check(FACTORIES[name], randn(3))


def test_numbers_that_change_beside_tensors():
    def scale(x, factor, count):
        return x * factor + count

    compiled = cdynamo.optimize(scale)
    x, y = randn(4), torch.randn(4)
    for factor, count in [(1.5, 3), (2.5, 4), (-1.0, 7), (0.25, 9)]:
        assert_equal(compiled(x, factor, count), scale(x, factor, count))
        assert_equal(compiled(y, factor, count), scale(y, factor, count))


def test_tensors_of_numbers_on_the_cpu():
    number = torch.tensor(2.0, requires_grad=True)
    check(lambda x, n: (x * n).sin() + n, randn(5, grad=True), number)


@pytest.mark.parametrize("operation", [torch.add, torch.matmul, torch.dot])
def test_two_devices_in_one_operator_are_eager_s_error(operation):
    compiled = cdynamo.optimize(lambda x, y: operation(x, y) + 1)
    with pytest.raises(RuntimeError, match="same device"):
        compiled(randn(3), torch.randn(3))


def test_writes_on_both_devices():
    def step(count, weight, gradient):
        count += 1
        weight -= gradient / count.to(weight.device)
        return weight.sum().cpu() + count

    states = [(torch.tensor([2.0]), torch.arange(4.0, device=DEVICE)) for _ in range(2)]
    gradient = randn(4)
    compiled = cdynamo.optimize(step)
    for _ in range(3):
        assert_equal(compiled(*states[0], gradient), step(*states[1], gradient))
        assert_equal(states[0], states[1])


# ---- autocast, scaling, whole steps


class Block(nn.Module):
    def __init__(self, size=32):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(size), nn.Linear(size, 2 * size), nn.Linear(2 * size, size)
        self.attention = nn.MultiheadAttention(size, 4, batch_first=True)

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.down(F.gelu(self.up(self.norm(x))))


def gradients(model, wrap, x, autocast):
    model = copy.deepcopy(model)
    run = wrap(model)

    def loss(x):
        with torch.autocast("cuda", **autocast):
            y = run(x)
        return y, y.float().square().mean()

    y, total = loss(x)
    total.backward()
    return y, [p.grad for p in model.parameters()]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("enabled", [True, False])
def test_a_model_under_autocast(dtype, enabled):
    model, x = Block().to(DEVICE), randn(2, 9, 32)
    options = {"dtype": dtype, "enabled": enabled}
    want = gradients(model, lambda m: m, x, options)
    before = cdynamo.counters()["graph_breaks"]
    got = gradients(model, cdynamo.optimize, x, options)
    assert got[0].dtype == want[0].dtype
    torch.testing.assert_close(got, want, rtol=3e-2, atol=3e-2)
    assert cdynamo.counters()["graph_breaks"] == before


AUTOCAST = {
    "product": lambda x: x @ x,
    "exponential": lambda x: (x @ x).exp(),
    "sum": lambda x: ((x @ x).sum(), (x @ x).softmax(-1), (x @ x).cumsum(0)),
    "dtype": lambda x: (x @ x).sum(dtype=torch.float16),
    "mean": lambda x: (x @ x).mean(0),
    "pow": lambda x: ((x @ x) ** 2, (x @ x).square(), 1 / (x @ x)),
    "norm": lambda x: ((x @ x).norm(), F.normalize(x @ x), F.layer_norm(x @ x, (8,))),
    "loss": lambda x: F.mse_loss(x @ x, x) + F.cross_entropy(x @ x, torch.arange(8, device=x.device)),
    "two dtypes": lambda x: (torch.addcmul(x, x @ x, x), torch.cat([x, x @ x]), x + x @ x),
    "off inside": lambda x: (x @ x, off(x)),
    "the cpu's": lambda x: (x @ x, x.cpu() @ x.cpu()),
    "double": lambda x: x.double() @ x.double(),
    "rms_norm": lambda x: F.rms_norm(x @ x, (8,)),
}


def off(x):
    with torch.autocast("cuda", enabled=False):
        return x @ x


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", AUTOCAST)
def test_autocast_gives_each_operator_eager_s_dtype(name, inside):
    def within(x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return AUTOCAST[name](x)

    x = randn(8, 8)
    tolerances = {"rtol": 2e-2, "atol": 2e-2}
    if inside:
        return check(within, x, **tolerances)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        check(AUTOCAST[name], x, **tolerances)


def train(wrap, make_optimizer, scale, steps=5):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1)).to(DEVICE)
    optimizer, scaler = make_optimizer(model.parameters()), torch.amp.GradScaler("cuda", enabled=scale)
    run, x = wrap(model), randn(64, 16)
    for _ in range(steps):
        with torch.autocast("cuda", dtype=torch.float16, enabled=scale):
            loss = (run(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": True}, {"capturable": True}])
def test_optimizers_step_compiled_models(options, scale):
    def adam(p):
        return torch.optim.AdamW(p, lr=0.01, **options)

    want, got = train(lambda m: m, adam, scale), train(cdynamo.optimize, adam, scale)
    torch.testing.assert_close(got, want, rtol=2e-2 if scale else 1e-4, atol=2e-3 if scale else 1e-5)


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop])
def test_a_whole_step_in_one_function(make):
    def run(wrap):
        torch.manual_seed(0)
        model = nn.Linear(8, 4).to(DEVICE)
        optimizer = make(model.parameters(), lr=0.05)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = wrap(step)
        x = randn(16, 8)
        return [step(x) for _ in range(4)] + [p.detach() for p in model.parameters()]

    torch.testing.assert_close(run(cdynamo.optimize), run(lambda f: f), rtol=1e-4, atol=1e-5)


def test_activation_checkpointing():
    from torch.utils.checkpoint import checkpoint

    first, second = nn.Linear(16, 16).to(DEVICE), nn.Linear(16, 16).to(DEVICE)

    def function(x):
        return checkpoint(lambda x: F.dropout(first(x).relu(), 0.4), x, use_reentrant=False) + second(x)

    check(function, randn(8, 16, grad=True), calls=1, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_draws_what_eager_draws(dtype):
    check(lambda x: F.dropout(x, 0.3) * 2 + torch.rand_like(x), randn(1000, 7, dtype=dtype, grad=True))


def test_what_models_ask_of_the_device():
    def ask(x):
        known = torch.cuda.is_available(), torch.cuda.current_device(), torch.cuda.get_device_capability()
        return x * 2 if torch.cuda.is_available() else x, known, x.device.type, x.device.index

    x = randn(3)
    before = cdynamo.counters()["graph_breaks"]
    assert cdynamo.optimize(ask)(x)[1:] == ask(x)[1:]
    assert cdynamo.counters()["graph_breaks"] == before


def test_streams_and_events_are_python_s():
    def work(x):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = x * 2
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        return y + 1

    x = randn(1000)
    compiled = cdynamo.optimize(work)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), work(x))


@pytest.mark.parametrize("sizes", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 3)], ids=str)
def test_products_without_elements(sizes):
    # A batch of none once ran as a batch of one, in memory that nobody had taken.
    left, right = randn(*sizes, grad=True), randn(*sizes, grad=True)
    check(lambda a, b: a @ b.mT, left, right)
    check(lambda a, b, c: torch.baddbmm(c, a, b.mT), left, right, randn(sizes[0], sizes[1], sizes[1], grad=True))
    torch.cuda.synchronize()
