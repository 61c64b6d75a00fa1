"""A torch.Generator that comes in, or is made inside: the numbers, and the state that it is left in, are eager's."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import cdynamo  # noqa: E402

pytestmark = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13),
    reason="PyTorch's C interface takes generators from 2.13 on",
)

SHARED = torch.Generator()
X = torch.linspace(0.1, 0.9, 48).reshape(6, 8)


def drawn(f, x, calls=3):
    """Results, strides and states after each of several calls with generators of their own."""
    seen = []
    for seed in range(calls):
        g = torch.Generator().manual_seed(seed)
        torch.manual_seed(100 + seed)
        SHARED.manual_seed(50 + seed)
        results = f(x.clone(), g)
        results = results if isinstance(results, tuple) else (results,)
        states = [g.get_state(), SHARED.get_state(), torch.get_rng_state()]
        seen += [*results, *(r.stride() for r in results), *states]
    return seen


def same(mine, theirs):
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs):
        if isinstance(a, torch.Tensor):
            assert a.dtype == b.dtype
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)
        else:
            assert a == b


class Sampler(nn.Module):
    def __init__(self, generator):
        super().__init__()
        self.generator = generator

    def forward(self, x):
        return x + torch.randn(x.shape, generator=self.generator, dtype=x.dtype)


def randn_tensor(shape, generator=None, device=None, dtype=None, layout=None):
    """As libraries of diffusion models draw their noise."""
    rand_device = device = device or torch.device("cpu")
    layout = layout or torch.strided
    if generator is not None:
        kind = generator.device.type if not isinstance(generator, list) else generator[0].device.type
        if kind != device.type and kind == "cpu":
            rand_device = "cpu"
        elif kind != device.type and kind == "cuda":
            raise ValueError(f"Cannot generate a {device} tensor from a generator of type {kind}.")
    if isinstance(generator, list) and len(generator) == 1:
        generator = generator[0]
    if isinstance(generator, list):
        shape = (1,) + shape[1:]
        latents = [
            torch.randn(shape, generator=generator[i], device=rand_device, dtype=dtype, layout=layout)
            for i in range(len(generator))
        ]
        return torch.cat(latents, dim=0).to(device)
    return torch.randn(shape, generator=generator, device=rand_device, dtype=dtype, layout=layout).to(device)


PROGRAMS = {
    "factories": lambda x, g: (
        torch.randn(3, 4, generator=g), torch.rand((5,), generator=g, dtype=torch.float64),
        torch.randint(7, (9,), generator=g), torch.randint(-3, 9, (2, 3), generator=g, dtype=torch.int32),
        torch.randperm(11, generator=g), x + torch.randn(6, 8, generator=g),
    ),
    "like": lambda x, g: (
        torch.rand_like(x, generator=g), torch.randn_like(x.t(), generator=g), torch.randint_like(x, 9, generator=g),
    ),
    "of tensors": lambda x, g: (
        torch.bernoulli(x, generator=g), torch.multinomial(x, 20, replacement=True, generator=g),
        torch.poisson(x * 3, generator=g), torch.normal(x, 0.5, generator=g), torch.normal(0.0, 2.0, (4,), generator=g),
        torch._standard_gamma(x, generator=g), torch.binomial(torch.full_like(x, 5), x, generator=g),
    ),
    "fills": lambda x, g: (
        x.clone().normal_(generator=g), x.clone().uniform_(-1, 2, generator=g), x.clone().t().normal_(1, 3, generator=g),
        x.clone().bernoulli_(0.3, generator=g), x.clone().exponential_(2, generator=g),
        x.clone().log_normal_(generator=g), x.clone().cauchy_(generator=g), x.clone().geometric_(0.4, generator=g),
        torch.empty(9).random_(5, generator=g), torch.empty(4, dtype=torch.int64).random_(generator=g),
    ),
    "written to the argument": lambda x, g: x.normal_(generator=g),
    "halves": lambda x, g: (torch.randn(9, generator=g, dtype=torch.bfloat16), x.half().uniform_(generator=g)),
    "interleaved": lambda x, g: (
        torch.rand(2, generator=g), torch.rand(2), torch.rand(3, generator=SHARED), torch.rand(2, generator=g),
        torch.rand(2, generator=torch.default_generator), torch.rand(1, generator=None),
    ),
    "one that nobody reads": lambda x, g: (torch.rand(3, generator=g), x + torch.rand(8, generator=g))[1],
    "none at all": lambda x, g: (torch.rand(0, generator=g), torch.rand(2, generator=g)),
    "noise of diffusion models": lambda x, g: (
        randn_tensor((2, 3), g), randn_tensor((1, 3), [g]), randn_tensor((2, 3), [g, SHARED]), randn_tensor((2,)),
    ),
    "what init fills": lambda x, g: (
        nn.init.normal_(torch.empty(3, 4), generator=g), nn.init.kaiming_uniform_(torch.empty(3, 4), generator=g),
        nn.init.xavier_normal_(torch.empty(3, 4), generator=g), nn.init.orthogonal_(torch.empty(5, 3), generator=g),
    ),
    "gumbel noise": lambda x, g: (x.log() - torch.empty_like(x).exponential_(generator=g).log()).argmax(-1),
    "an attribute": lambda x, g: Sampler(g)(x),
    "where it is": lambda x, g: torch.randn(2, generator=g, device=g.device) + (g is not SHARED),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_and_states_are_eagers(name, counts):
    f = PROGRAMS[name]
    same(drawn(cdynamo.optimize(f, fullgraph=True), X), drawn(f, X))
    assert counts.graphs_compiled == 1


@pytest.mark.native
def test_draws_that_depend_on_data(counts):
    def f(x, g):
        return (
            torch.multinomial(x, 3, generator=g),
            torch.multinomial(x[0], 1, generator=g),
            torch.normal(x, x, generator=g),
        )

    same(drawn(cdynamo.optimize(f, fullgraph=True), X), drawn(f, X))
    assert counts.graphs_compiled == 1


def test_a_generator_of_a_module(counts):
    ends = []
    for compiled in (False, True):
        module = Sampler(torch.Generator().manual_seed(3))
        run = cdynamo.optimize(module, fullgraph=True) if compiled else module
        ends.append([run(X), run(X), module.generator.get_state()])
        module.generator = torch.Generator().manual_seed(4)
        ends[-1] += [run(X), module.generator.get_state()]
    same(*ends)
    assert counts.graphs_compiled == 1


def test_gradients_beside_what_is_drawn():
    def f(x, g):
        noise = torch.randn(x.shape, generator=g)
        kept = (torch.rand(x.shape, generator=g) < 0.7) / 0.7
        return ((x * noise + torch.bernoulli(x.sigmoid(), generator=g)) * kept).tanh().sum()

    ends = []
    for run in (f, cdynamo.optimize(f, fullgraph=True)):
        g = torch.Generator().manual_seed(8)
        for _ in range(2):
            x = X.clone().requires_grad_()
            loss = run(x, g)
            loss.backward()
            ends += [loss.detach(), x.grad]
        ends.append(g.get_state())
    same(ends[:5], ends[5:])


def test_sizes_that_change():
    compiled = cdynamo.optimize(lambda x, g: x + torch.randn(x.shape[0], generator=g), fullgraph=True)
    mine, theirs = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    for n in (3, 4, 20, 33):
        assert torch.equal(compiled(torch.zeros(n), mine), torch.randn(n, generator=theirs))
    assert torch.equal(mine.get_state(), theirs.get_state())


def test_one_generator_by_two_names():
    compiled = cdynamo.optimize(
        lambda a, b: (torch.rand(2, generator=a), torch.rand(2, generator=b), a is b), fullgraph=True
    )
    for once in (True, False, True):
        ends = []
        for run in (compiled, compiled.__wrapped__):
            a = torch.Generator().manual_seed(1)
            b = a if once else torch.Generator().manual_seed(2)
            x, y, is_one = run(a, b)
            ends.append([x, y, is_one, a.get_state(), b.get_state()])
        same(*ends)


REFUSED = {
    "an index out of range": lambda x, g, i: torch.rand(3, generator=g).sum() + torch.rand(2).sum() + x[i],
    "a probability": lambda x, g, i: torch.rand(3, generator=g).sum() + torch.bernoulli(x + i, generator=g),
    "weights": lambda x, g, i: torch.rand(3, generator=g).sum() + torch.multinomial(x - i, 2, generator=g),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_are_eagers_and_nothing_is_drawn_twice(name):
    f = REFUSED[name]
    compiled = cdynamo.optimize(f)
    ends = []
    for run in (f, compiled):
        g = torch.Generator().manual_seed(3)
        torch.manual_seed(3)
        for i in (torch.tensor(0), torch.tensor(9), torch.tensor(0)):
            try:
                ends.append(("no error", run(X, g, i).sum().item()))
            except (RuntimeError, IndexError) as error:
                ends.append((type(error), str(error)))
            ends[-1] += (g.get_state().tolist(), torch.get_rng_state().tolist())
    assert ends[3:] == ends[:3]


@pytest.mark.parametrize("backend", [None, "eager", lambda module, inputs: module.forward])
def test_an_index_out_of_range_draws_nothing_twice(backend):
    """Of the default generator."""

    def f(x, i):
        return torch.rand(3).sum() + x[i]

    ends = []
    for run in (f, cdynamo.optimize(f, backend=backend) if backend else cdynamo.optimize(f)):
        torch.manual_seed(0)
        run(X, torch.tensor(0))
        with pytest.raises(IndexError):
            run(X, torch.tensor(9))
        ends.append(torch.rand(1))
    assert torch.equal(*ends)


def test_draws_that_a_checkpoint_would_repeat():
    """Eager puts the default generator alone back before it computes a region again."""

    def f(x, g):
        return torch.utils.checkpoint.checkpoint(
            lambda y: (y * torch.rand(y.shape, generator=g)).sin(), x, use_reentrant=False
        ).sum()

    ends = []
    for run in (f, cdynamo.optimize(f)):
        g = torch.Generator().manual_seed(8)
        x = X.clone().requires_grad_()
        run(x, g).backward()
        ends.append([x.grad, g.get_state()])
    same(*ends)


def test_what_a_generator_is_asked_between_draws():
    def f(x, g):
        a = x + torch.rand(8, generator=g)
        state = g.get_state()
        g.manual_seed(5)
        return a, torch.rand(2, generator=g), state

    same(drawn(cdynamo.optimize(f), X), drawn(f, X))


def test_dropout_leaves_other_generators_alone():
    def f(x, g):
        return F.dropout(x, 0.5) + torch.rand(8, generator=g)

    same(drawn(cdynamo.optimize(f, fullgraph=True), X), drawn(f, X))


def test_a_backend_that_takes_no_generator(caplog):
    def refuses(module, inputs):
        raise RuntimeError("no generators")

    def f(x, g):
        return x * 2 + torch.rand(8, generator=g)

    same(drawn(cdynamo.optimize(f, backend=refuses, fullgraph=True), X), drawn(f, X))
    assert "call by call" in caplog.text


MADE = {
    "seeded": lambda x: x + torch.randn(6, 8, generator=torch.Generator().manual_seed(3)),
    "for a device": lambda x: torch.rand(3, generator=torch.Generator(device=x.device).manual_seed(x.shape[0])),
    "without a seed": lambda x: torch.rand(3, generator=torch.Generator("cpu")),
    "two": lambda x: ((g := torch.Generator()).manual_seed(4), torch.rand(2, generator=torch.Generator()), g)[1:2],
    "in place": lambda x: x.uniform_(generator=torch.Generator().manual_seed(1)),
    "one for each": lambda x: tuple(torch.rand(2, generator=torch.Generator().manual_seed(i)) for i in range(3)),
    "in order": lambda x: (
        torch.rand(2, generator=(g := torch.Generator().manual_seed(1))),
        torch.randn(3, generator=g),
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_one_that_is_made_inside(name):
    compiled = cdynamo.optimize(lambda x, g: MADE[name](x), fullgraph=True)
    same(drawn(compiled, X), drawn(lambda x, g: MADE[name](x), X))


def test_one_that_is_made_inside_and_leaves():
    def f(x):
        g = torch.Generator().manual_seed(x.shape[0])
        return x * torch.rand(8, generator=g), g, [g], isinstance(g, torch.Generator), g is torch.Generator()

    def seen(f):
        y, g, (again,), *said = f(X)
        assert again is g
        return [y, g.get_state(), torch.rand(3, generator=g), *said]

    compiled = cdynamo.optimize(f, fullgraph=True)
    for _ in range(2):
        same(seen(compiled), seen(f))


def test_one_that_is_made_inside_is_there_after_a_break():
    def f(x, g):
        made = torch.Generator().manual_seed(2)
        first = torch.rand(3, generator=made)
        cdynamo.graph_break()
        second = torch.rand(3, generator=made)
        made.manual_seed(7)
        return first, second, torch.rand(3, generator=made), made.get_state()

    same(drawn(cdynamo.optimize(f), X), drawn(f, X))


@pytest.mark.parametrize("seed", ["a", 2**70, 1.5])
def test_seeds_that_pytorch_refuses(seed):
    def f(x):
        return x + torch.rand(8, generator=torch.Generator().manual_seed(seed))

    def error(f):
        with pytest.raises((TypeError, RuntimeError, ValueError, OverflowError)) as raised:
            f(X)
        return raised.type, str(raised.value)

    assert error(cdynamo.optimize(f)) == error(f)
