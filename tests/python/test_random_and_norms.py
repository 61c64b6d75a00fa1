"""Operators of training: random numbers are eager's for the same seed, batch norm keeps its running statistics."""

import copy
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import cdynamo  # noqa: E402


def draws_like_eager(f, *inputs, graph_breaks=0):
    """Results, strides and the generator's state afterwards, twice in a row."""
    compiled = cdynamo.optimize(f)
    before = cdynamo.counters()
    torch.manual_seed(5)
    got = [compiled(*(x.clone() for x in inputs)) for _ in range(2)]
    state = torch.get_rng_state()
    torch.manual_seed(5)
    for result in got:
        eager = f(*(x.clone() for x in inputs))
        for mine, theirs in zip(*(r if isinstance(r, tuple) else (r,) for r in (result, eager))):
            torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)
            assert mine.stride() == theirs.stride()
    assert torch.equal(state, torch.get_rng_state())
    assert cdynamo.counters()["graph_breaks"] - before["graph_breaks"] == graph_breaks


@pytest.fixture
def x():
    return torch.randn(64, 33)


@pytest.mark.parametrize(
    "dropout",
    [
        lambda x: F.dropout(x, 0.3),
        lambda x: F.dropout(x * 2, 0.3, inplace=True),
        lambda x: F.dropout(x, 1.0),
        lambda x: F.dropout2d(x.view(2, 32, 33, 1), 0.3),
        lambda x: F.alpha_dropout(x, 0.3, True),
        lambda x: F.feature_alpha_dropout(x.view(2, 32, 33), 0.3, True),
        lambda x: F.dropout(x.bfloat16(), 0.5),
    ],
)
def test_dropout(dropout, x):
    draws_like_eager(dropout, x)


def test_factories_and_fills(x):
    def f(x):
        torch.rand(7)  # not used, and drawn all the same
        a, b, c = torch.bernoulli(x.sigmoid()), torch.rand_like(x), torch.randn(3, 5)
        d, e = torch.randint(3, 9, (4, 5)), torch.randint_like(x, 5)
        g = torch.empty(5, 4).uniform_(-1, 2)
        return a, b, c, d, e, g, g.clone().normal_(1, 3), torch.normal(g, 0.5), torch.empty(9).bernoulli_(0.3)

    draws_like_eager(f, x)


def test_draws_keep_the_order_of_the_program(x):
    def f(x):
        p = (x @ x.t()).softmax(-1)
        a, b, c = torch.bernoulli(p), torch.rand(4), torch.bernoulli(torch.exp(-p))
        return b, a, c, torch.rand(2, 3).t(), torch.rand(5, 3).t().contiguous()

    draws_like_eager(f, x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: F.dropout(x.t(), 0.3),
        lambda x: F.dropout(x.view(4, 16, 11, 3).permute(2, 0, 3, 1) * 2, 0.3) + 1,
        lambda x: F.alpha_dropout(x[:, ::2], 0.3, True),
        lambda x: F.dropout(x[:1, None].expand(5, 3, 33), 0.3),
        lambda x: (torch.rand_like(x.t()), torch.randn_like(x[1:, :7]), torch.randint_like(x.view(8, 8, 33).mT, 9)),
        lambda x: x.clone().t().normal_(1, 3),
        lambda x: x.clone().view(8, 8, 33).transpose(0, 1).uniform_(),
        lambda x: F.dropout(x.view(64, 11, 3, 1).contiguous(memory_format=torch.channels_last), 0.4),
    ],
)
def test_the_order_of_draws_is_that_of_memory(f, x):
    draws_like_eager(f, x)


def test_attention_with_dropout():
    q, k, v = torch.randn(3, 2, 4, 6, 8).unbind(0)
    draws_like_eager(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.2, is_causal=True), q, k, v)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.BatchNorm2d(4), (3, 4, 5, 5)),
        (lambda: nn.BatchNorm1d(4, affine=False), (6, 4)),
        (lambda: nn.BatchNorm2d(4, track_running_stats=False), (3, 4, 5, 5)),
        (lambda: nn.BatchNorm2d(4, momentum=None), (3, 4, 5, 5)),
        (lambda: nn.BatchNorm2d(4).eval(), (3, 4, 5, 5)),
        (lambda: nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.3)), (3, 4, 5, 5)),
        (lambda: nn.InstanceNorm2d(4, affine=True), (3, 4, 5, 5)),
    ],
)
def test_norms_in_training(make, shape):
    eager = make()
    twin = copy.deepcopy(eager)
    compiled = cdynamo.optimize(twin)
    for step in range(3):
        x = torch.randn(shape) * 2 + 1
        results = []
        for module in (eager, compiled):
            torch.manual_seed(step)
            y = x.clone().requires_grad_()
            out = module(y)
            out.sin().sum().backward()
            results.append((out, y.grad))
        for theirs, mine in zip(*results):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
        for theirs, mine in zip(eager.parameters(), twin.parameters()):
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-4)
        for theirs, mine in zip(eager.buffers(), twin.buffers()):
            torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.bernoulli(x),
        lambda x: torch.normal(x, 0.5),
        lambda x: x.clone().uniform_(),
        lambda x: x.clone().normal_(),
        lambda x: x.clone().exponential_(),
        lambda x: x.clone().bernoulli_(0.4),
    ],
)
def test_what_is_drawn_has_a_gradient_of_zeros(function):
    x = torch.rand(5, requires_grad=True)
    for f in (function, cdynamo.optimize(function)):
        torch.manual_seed(0)
        out = f(x)
        assert out.requires_grad
        (gradient,) = torch.autograd.grad(out.sum(), x)
        assert torch.equal(gradient, torch.zeros(5))


@pytest.mark.parametrize(
    "norm",
    [
        lambda x: (x.norm(), x.norm(dim=1), x.norm(dim=(0, 2), keepdim=True), x.norm(dim=-1, dtype=torch.float64)),
        lambda x: (torch.norm(x, dim=1), torch.norm(x), torch.norm(x, keepdim=True), torch.norm(x, "fro", -1)),
        lambda x: (x.norm(1), x.norm(2, -1), x.norm(p=3, dim=0, keepdim=True), x.norm(float("inf"), dim=0)),
        lambda x: F.normalize(x) / x.norm(dim=-1, keepdim=True),
    ],
)
def test_norms_of_tensors(norm):
    x = torch.randn(4, 3, 2, requires_grad=True)
    compiled = cdynamo.optimize(norm, fullgraph=True)
    graphs = cdynamo.counters()["graphs_compiled"]
    for given in (x, *(torch.randn(n, 3, 2, requires_grad=True) for n in (7, 9))):
        for got, want in zip(compiled(given), norm(given)):
            torch.testing.assert_close(got, want)
            assert got.requires_grad == want.requires_grad
    assert cdynamo.counters()["graphs_compiled"] - graphs == 2
    got, want = (torch.autograd.grad(sum(y.double().sum() for y in f(x)), x)[0] for f in (compiled, norm))
    torch.testing.assert_close(got, want)


def test_a_norm_of_too_many_dims_is_an_error():
    x = torch.randn(2, 3, 4)
    with pytest.raises(RuntimeError) as eager:
        x.norm(dim=(0, 1, 2))
    with pytest.raises(RuntimeError) as compiled:
        cdynamo.optimize(lambda x: x.norm(dim=(0, 1, 2)))(x)
    assert str(compiled.value) == str(eager.value)


CONCENTRATIONS = torch.linspace(0.2, 4, 48).reshape(6, 8)

DRAWN_OF_TENSORS = {
    "poisson": lambda x: torch.poisson(x * 3),
    "poisson of another layout": lambda x: torch.poisson(x.t() * 3) + 1,
    "poisson of few": lambda x: torch.poisson(x[:1, None].expand(3, 2, 8)),
    "gamma": lambda x: torch._standard_gamma(x),
    "gamma of float64": lambda x: torch._standard_gamma(x.double().t()),
    "dirichlet": lambda x: torch._sample_dirichlet(x),
    "multinomial with replacement": lambda x: torch.multinomial(x, 20, replacement=True),
    "multinomial of a row": lambda x: (torch.multinomial(x[0], 30, True), torch.multinomial(x[1], 3, True), torch.rand(2)),
    "multinomial of columns": lambda x: x.t().multinomial(9, replacement=True) + 1,
    "randperm": lambda x: (x[torch.randperm(6)], torch.randperm(5, dtype=torch.int32), torch.randperm(1), torch.rand(1)),
    "fills": lambda x: (
        torch.empty(5, 3).cauchy_(1, 2), torch.empty(7).log_normal_(), torch.empty(4, 4).t().geometric_(0.3), x + 1,
    ),
    "integers": lambda x: (
        torch.empty(9).random_(6), torch.empty(9, dtype=torch.int64).random_(-3, 4),
        torch.empty(3, dtype=torch.int32).random_(), torch.empty(20, dtype=torch.float64).random_(),
    ),
    "all in a row": lambda x: (
        torch.rand(3), torch.poisson(x), torch.randn(2), torch._standard_gamma(x.exp()), torch.rand(1),
        torch.multinomial(x.exp(), 4, True), torch.randperm(4), torch.bernoulli(x / 4),
    ),
    "one that nobody reads": lambda x: (torch.poisson(x), x + torch.rand(8))[1],
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN_OF_TENSORS)
def test_numbers_drawn_of_what_tensors_say(name):
    draws_like_eager(DRAWN_OF_TENSORS[name], CONCENTRATIONS)


@pytest.mark.native
def test_operators_that_nobody_has_asked_pytorch_for():
    """`torch.ops.aten` makes the attribute of an operator when it is first asked for it."""
    program = """if True:
        import torch, cdynamo
        assert "binomial" not in vars(torch.ops.aten)
        x = torch.arange(3.0)
        torch.manual_seed(1)
        got = cdynamo.optimize(lambda x: torch.binomial(x * 4, x / 4), fullgraph=True)(x)
        torch.manual_seed(1)
        assert torch.equal(got, torch.binomial(x * 4, x / 4))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert not done.returncode, done.stderr


def test_sizes_of_drawn_permutations_that_change(counts):
    compiled = cdynamo.optimize(lambda x: x[torch.randperm(x.shape[0])], fullgraph=True)
    for n in (4, 5, 6, 7):
        x = torch.arange(n)
        torch.manual_seed(n)
        got = compiled(x)
        torch.manual_seed(n)
        assert torch.equal(got, x[torch.randperm(n)])
    assert counts.graphs_compiled == 2


REFUSED_BY_EAGER = {
    "negative rate": lambda x: torch.poisson(-x),
    "probability beyond 1": lambda x: torch.binomial(torch.full_like(x, 3), x + 1),
    "negative probability": lambda x: torch.multinomial(-x, 3, replacement=True),
    "too many": lambda x: torch.multinomial(x, 9),
    "bernoulli": lambda x: (torch.rand(2), torch.bernoulli(x + 1))[1],
}


@pytest.mark.native
@pytest.mark.parametrize("name", REFUSED_BY_EAGER)
def test_errors_are_eagers_and_nothing_is_drawn_twice(name):
    f = REFUSED_BY_EAGER[name]
    ends = []
    for run in (f, cdynamo.optimize(f)):
        torch.manual_seed(3)
        try:
            ends.append(("no error", run(CONCENTRATIONS).sum().item()))
        except (RuntimeError, ValueError) as error:
            ends.append((type(error), str(error)))
        ends[-1] += (torch.get_rng_state().tolist(),)
    assert ends[0] == ends[1]


@pytest.mark.native
@pytest.mark.parametrize("fullgraph", [False, True])
def test_gradients_through_what_is_drawn(fullgraph, counts):
    def f(x):
        beta = torch.distributions.Beta(x, x + 1).rsample((2,))
        gammas = torch._standard_gamma(x) * x + torch._standard_gamma(x.t()).t()
        return gammas.sum() + torch.poisson(x).sum() + (beta * beta).sum()

    gradients = []
    for run in (f, cdynamo.optimize(f, fullgraph=fullgraph)):
        torch.manual_seed(1)
        x = CONCENTRATIONS.clone().requires_grad_()
        gradients += [*torch.autograd.grad(run(x), x), torch.rand(2)]
    torch.testing.assert_close(gradients[2:], gradients[:2])
    assert counts.graph_breaks == 0


@pytest.mark.native  # backends in Python see a Function as one call
@pytest.mark.parametrize("draw", [torch._standard_gamma, lambda x: torch.distributions.Dirichlet(x).rsample()])
def test_there_is_no_second_derivative_of_what_is_drawn(draw):
    for run in (draw, cdynamo.optimize(draw)):
        x = CONCENTRATIONS.clone().requires_grad_()
        (first,) = torch.autograd.grad(run(x).square().sum(), x, create_graph=True)
        with pytest.raises((RuntimeError, NotImplementedError)):
            torch.autograd.grad(first.sum(), x)


@pytest.mark.native
@pytest.mark.parametrize("batches", [0, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "norm, shape", [(nn.BatchNorm1d, (6, 3)), (nn.BatchNorm2d, (2, 3, 5, 4)), (nn.BatchNorm1d, (0, 3))]
)
def test_cumulative_averages_of_batch_norm(norm, shape, dtype, batches):
    module = norm(3, momentum=None).to(dtype)
    module.num_batches_tracked.fill_(batches)
    ours = copy.deepcopy(module)
    compiled = cdynamo.optimize(ours)
    before = cdynamo.counters()
    for _ in range(3):
        x = torch.randn(shape, dtype=dtype)
        inputs = [x.clone().requires_grad_() for _ in range(2)]
        results = [f(x) for f, x in zip((module, compiled), inputs)]
        torch.testing.assert_close(results[1], results[0])
        for result in results:
            (result**3).sum().backward()
        torch.testing.assert_close(inputs[1].grad, inputs[0].grad)
        torch.testing.assert_close(ours.state_dict(), module.state_dict(), equal_nan=True)
    after = cdynamo.counters()
    assert after["graph_breaks"] == before["graph_breaks"]
    assert after["graphs_compiled"] - before["graphs_compiled"] == 1


def test_a_momentum_that_changes():
    def f(x, mean, var, momentum):
        return F.batch_norm(x, mean, var, training=True, momentum=momentum)

    compiled = cdynamo.optimize(f)
    statistics = [[torch.zeros(3), torch.ones(3)] for _ in range(2)]
    for momentum in (0.1, 0.2, 0.3, 0, 1):
        x = torch.randn(4, 3)
        expected = f(x, *statistics[0], momentum)
        torch.testing.assert_close(compiled(x, *statistics[1], momentum), expected)
        torch.testing.assert_close(*statistics)


def test_a_cumulative_average_of_no_batches_is_pythons_error():
    module = nn.BatchNorm1d(3, momentum=None)
    module.num_batches_tracked.fill_(-1)
    with pytest.raises(ZeroDivisionError):
        cdynamo.optimize(module)(torch.randn(4, 3))
    assert module.num_batches_tracked == 0
