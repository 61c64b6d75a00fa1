"""torch.distributions inside of a compiled function: densities, samples, divergences and gradients are eager's."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")
import torch.distributions as dist  # noqa: E402
from training_check import assert_close  # noqa: E402

pytestmark = pytest.mark.native  # what the arguments are to be is asked of data, where backends in Python get a break


def positive(x):
    return x.exp() + 0.1


DISTRIBUTIONS = {
    "normal": lambda x: dist.Normal(x, positive(x)),
    "log_normal": lambda x: dist.LogNormal(x, positive(x)),
    "bernoulli": lambda x: dist.Bernoulli(logits=x),
    "categorical": lambda x: dist.Categorical(logits=x),
    "one_hot": lambda x: dist.OneHotCategorical(logits=x),
    "beta": lambda x: dist.Beta(positive(x), positive(-x)),
    "gamma": lambda x: dist.Gamma(positive(x), positive(-x)),
    "dirichlet": lambda x: dist.Dirichlet(positive(x)),
    "exponential": lambda x: dist.Exponential(positive(x)),
    "laplace": lambda x: dist.Laplace(x, positive(x)),
    "normals": lambda x: dist.Independent(dist.Normal(x, positive(x)), 1),
    "multivariate_normal": lambda x: dist.MultivariateNormal(x, 2 * torch.eye(4)),
    "student": lambda x: dist.StudentT(positive(x)),
    "gumbel": lambda x: dist.Gumbel(x, positive(x)),
    "geometric": lambda x: dist.Geometric(logits=x),
    "poisson": lambda x: dist.Poisson(positive(x)),
    "multinomial": lambda x: dist.Multinomial(10, logits=x),
    "negative_binomial": lambda x: dist.NegativeBinomial(5.0, logits=x),
    "chi2": lambda x: dist.Chi2(positive(x)),
    "fisher_snedecor": lambda x: dist.FisherSnedecor(positive(x), positive(-x)),
    "inverse_gamma": lambda x: dist.InverseGamma(positive(x), positive(-x)),
    "cauchy": lambda x: dist.Cauchy(x, positive(x)),
    "half_cauchy": lambda x: dist.HalfCauchy(positive(x)),
    "mixture_of_gammas": lambda x: dist.MixtureSameFamily(
        dist.Categorical(logits=x), dist.Gamma(positive(x), positive(-x))
    ),
    "mixture": lambda x: dist.MixtureSameFamily(dist.Categorical(logits=x), dist.Normal(x, positive(x))),
    "weibull": lambda x: dist.Weibull(positive(x), positive(-x)),
    "low_rank": lambda x: dist.LowRankMultivariateNormal(x, torch.ones(4, 1), torch.ones(4)),
    "squashed": lambda x: dist.TransformedDistribution(
        dist.Normal(x, positive(x)), [dist.TanhTransform(), dist.AffineTransform(1.0, 2.0)]
    ),
}
DIVERGING = [
    "normal", "bernoulli", "categorical", "beta", "gamma", "dirichlet", "exponential", "laplace", "normals",
    "multivariate_normal",
]  # fmt: skip


def check(function, fullgraph=True):
    results = []
    for f in (function, cdynamo.optimize(function, fullgraph=fullgraph)):
        torch.manual_seed(0)
        x = torch.linspace(-1, 1, 4).requires_grad_()
        result = f(x)
        gradient = torch.autograd.grad(result.sum(), x) if result.requires_grad else ()
        results.append((result, *gradient, torch.rand(1)))
    assert len(results[0]) == len(results[1])
    for got, wanted in zip(results[1], results[0]):
        assert_close(got, wanted)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_densities(name):
    make = DISTRIBUTIONS[name]
    torch.manual_seed(1)
    value = make(torch.linspace(-1, 1, 4)).sample()
    check(lambda x: make(x).log_prob(value))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_samples(name):
    def sample(x):
        made = DISTRIBUTIONS[name](x)
        return made.rsample() if made.has_rsample else made.sample()

    check(sample)


@pytest.mark.parametrize("name", DIVERGING)
def test_divergences(name):
    make = DISTRIBUTIONS[name]
    check(lambda x: dist.kl_divergence(make(x), make(x * 0.5)))
    check(lambda x: make(x).entropy())


def test_new_tensors():
    x = torch.ones(2, dtype=torch.float64)

    def f(x):
        return x.new(2, 3).fill_(1), x.new(torch.Size([3])).zero_(), x.new().shape, x.new(x.shape).fill_(2)

    for got, wanted in zip(cdynamo.optimize(f, fullgraph=True)(x), f(x), strict=True):
        assert got == wanted if isinstance(wanted, torch.Size) else torch.equal(got, wanted)
    assert cdynamo.optimize(lambda x: x.new([2, 3]))(x).tolist() == [2.0, 3.0]


def test_matrices_that_are_not_positive_definite():
    def f(x, matrix):
        return dist.MultivariateNormal(x, matrix).log_prob(x)

    fast, x = cdynamo.optimize(f), torch.zeros(2)
    for matrix in (torch.eye(2), torch.tensor([[1.0, 2.0], [2.0, 1.0]]), torch.tensor([[1.0, 0.5], [0.0, 1.0]])):
        try:
            wanted = f(x, matrix)
        except Exception as error:  # of what is validated, or of the factorization
            with pytest.raises(type(error)) as raised:
                fast(x, matrix)
            assert str(raised.value) == str(error)
        else:
            assert_close(fast(x, matrix), wanted)


def test_normal_numbers():
    mean, std = torch.linspace(-1, 1, 12).reshape(3, 4), torch.linspace(0, 1, 12).reshape(3, 4)

    def f(mean, std):
        return (
            torch.normal(mean, std),
            torch.normal(mean[0], std=std),
            torch.normal(0.5, std),
            torch.normal(mean.t(), std.t()),
            dist.Normal(mean, std + 1).sample((2,)),
            torch.normal(mean, 2.0),
            torch.normal(0.0, 1.0, (3,)),
            torch.rand(1),
        )

    fast = cdynamo.optimize(f, fullgraph=True)
    for seed in range(2):
        torch.manual_seed(seed)
        wanted = f(mean, std)
        torch.manual_seed(seed)
        for got, expected in zip(fast(mean, std), wanted, strict=True):
            assert_close(got, expected)
            assert got.stride() == expected.stride()
    with pytest.raises(RuntimeError, match="normal expects all elements of std >= 0.0"):
        cdynamo.optimize(f)(mean, std - 1)


class Encoder(torch.nn.Module):
    """A variational autoencoder whose posteriors are gammas, betas and points of a simplex."""

    def __init__(self):
        super().__init__()
        self.encode, self.decode = torch.nn.Linear(6, 11), torch.nn.Linear(7, 6)

    def forward(self, x):
        a, b, c = torch.nn.functional.softplus(self.encode(x)).add(0.1).split([4, 4, 3], -1)
        ones = torch.ones(2)
        posteriors = dist.Gamma(a[:, :2], b[:, :2]), dist.Beta(a[:, 2:], b[:, 2:]), dist.Dirichlet(c)
        priors = dist.Gamma(ones, ones), dist.Beta(ones, ones), dist.Dirichlet(torch.ones(3))
        code = torch.cat([posterior.rsample() for posterior in posteriors], -1)
        divergence = sum(dist.kl_divergence(*pair).sum() for pair in zip(posteriors, priors))
        return (self.decode(code) - x).square().mean() + 0.01 * divergence


def test_training_with_posteriors_that_are_drawn_by_pytorch(counts):
    ends = []
    for optimize in (lambda model: model, cdynamo.optimize):
        torch.manual_seed(0)
        model = Encoder().double()
        forward, optimizer = optimize(model), torch.optim.SGD(model.parameters(), lr=0.05)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = forward(torch.randn(8, 6, dtype=torch.float64))
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        ends.append([*losses, *(parameter.detach() for parameter in model.parameters()), torch.rand(1)])
    for got, wanted in zip(ends[1], ends[0], strict=True):
        assert_close(got, wanted)
    assert counts.graph_breaks == 0


def test_what_pytorch_cannot_differentiate_is_differentiated_by_nobody():
    """The backwards above call these; a program that asks for their gradients gets eager's error."""

    def slope(x, y):
        return torch._standard_gamma_grad(x * 1, y).sum()

    for function in (slope, cdynamo.optimize(slope)):
        x = torch.tensor([1.5, 2.5]).requires_grad_()
        result = function(x, torch.tensor([0.5, 1.0]))
        assert result.requires_grad
        with pytest.raises(NotImplementedError, match="_standard_gamma_grad"):
            result.backward()
