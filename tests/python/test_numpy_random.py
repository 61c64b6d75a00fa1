"""NumPy's random numbers in captured code: what is drawn, in which order, and the generators' states afterwards are plain NumPy's."""

from __future__ import annotations

import os

import numpy as np
import pytest

import cdynamo

NATIVE = os.environ.get("CDYNAMO_TEST_BACKEND", "native") == "native"
X = np.arange(12.0).reshape(3, 4)
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4])
SHARED = np.random.default_rng(5)
BITS = [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.SFC64, np.random.Philox]


def assert_same(mine, theirs):
    assert type(mine) is type(theirs)
    if isinstance(mine, (tuple, list)):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs):
            assert_same(a, b)
    elif isinstance(mine, dict):
        assert_same(list(mine.items()), list(theirs.items()))
    elif isinstance(mine, np.ndarray):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        assert mine.flags.writeable == theirs.flags.writeable
        np.testing.assert_array_equal(mine, theirs)
    else:
        assert mine == theirs


def state_of(rng):
    if isinstance(rng, np.random.RandomState):
        return rng.get_state(legacy=False)
    return rng.bit_generator.state


def assert_draws_alike(f, make, *others, calls=5, fullgraph=True, compiled=None):
    """Calls one after the other: each finds the generator as the last has left it."""
    compiled = compiled or cdynamo.optimize(f, fullgraph=fullgraph)
    plain, mine = make(), make()
    for _ in range(calls):
        theirs = f(plain, *[np.array(other) for other in others])
        assert_same(compiled(mine, *[np.array(other) for other in others]), theirs)
        assert_same(state_of(mine), state_of(plain))
    return compiled


def modern():
    return np.random.default_rng(7)


def legacy():
    return np.random.RandomState(7)


# ---- arrays and floats, of both kinds of generators


def in_place(rng, x):
    a = rng.normal(size=(3, 4))
    b = a[1:]
    a *= 2
    b[0] = x[0]
    return a, b, a + x


DRAWS = {
    "normal": lambda rng, x: rng.normal(size=(3, 4)) + x,
    "by position": lambda rng, x: rng.normal(1.0, 2.0, (3, 4)) * x,
    "one size": lambda rng, x: x * rng.normal(0, 0.1, 4),
    "a list for a size": lambda rng, x: x + rng.uniform(-1, 1, [3, 1]),
    "sizes of an array": lambda rng, x: x + rng.normal(size=x.shape) + rng.normal(size=len(x))[:, None],
    "returned": lambda rng, x: rng.normal(size=3),
    "a view returned": lambda rng, x: (rng.normal(size=(3, 4))[1:, ::2], rng.uniform(size=(2, 5)).T),
    "returned twice": lambda rng, x: (lambda a: (a, [a, a * 2], a is a))(rng.normal(size=3)),
    "unused": lambda rng, x: (rng.normal(size=3), x + 1)[1],
    "a float": lambda rng, x: x * rng.normal() + rng.uniform(1, high=2),
    "floats returned": lambda rng, x: (rng.normal(), rng.standard_normal(), rng.random(), x + 1),
    "floats alone": lambda rng, x: rng.normal() * rng.random(),
    "of what was drawn": lambda rng, x: x + rng.normal(rng.uniform(1, 2), rng.random(), size=4),
    "no dims": lambda rng, x: x + rng.normal(size=()),
    "nothing": lambda rng, x: (rng.normal(size=0), rng.normal(size=(0, 3)), x + 1),
    "one": lambda rng, x: (rng.normal(size=1), rng.normal(size=(1, 1)) + x),
    "a loop": lambda rng, x: sum((rng.normal(size=4) * x for _ in range(5)), np.zeros((3, 4))),
    "drawn in turns": lambda rng, x: (rng.random(), rng.random(3), rng.random(), rng.normal(size=2), x * rng.random()),
    "distributions": lambda rng, x: (
        x + 1,
        rng.beta(1.0, 2.0, 3),
        rng.binomial(10, 0.3, 3),
        rng.chisquare(2.0, 3),
        rng.exponential(2.0, 3),
        rng.f(2.0, 3.0, 3),
        rng.gamma(2.0, 1.0, 3),
        rng.geometric(0.3, 3),
        rng.gumbel(0.0, 1.0, 3),
        rng.hypergeometric(5, 6, 4, 3),
        rng.laplace(0.0, 1.0, 3),
        rng.logistic(0.0, 1.0, 3),
        rng.lognormal(0.0, 1.0, 3),
        rng.logseries(0.5, 3),
    ),
    "more distributions": lambda rng, x: (
        x + 1,
        rng.multinomial(5, [0.25, 0.25, 0.5], 3),
        rng.multinomial(5, (0.25, 0.25, 0.5)),
        rng.negative_binomial(3, 0.5, 3),
        rng.noncentral_chisquare(2.0, 1.0, 3),
        rng.noncentral_f(2.0, 3.0, 1.0, 3),
        rng.pareto(2.0, 3),
        rng.poisson(3.0, 3),
        rng.power(2.0, 3),
        rng.random((2, 2)),
        rng.rayleigh(1.0, 3),
        rng.standard_cauchy(3),
        rng.standard_exponential(3),
        rng.standard_gamma(2.0, 3),
        rng.standard_normal((2, 2)),
        rng.standard_t(3.0, 3),
        rng.triangular(0.0, 0.5, 1.0, 3),
        rng.vonmises(0.0, 1.0, 3),
        rng.wald(1.0, 1.0, 3),
        rng.weibull(2.0, 3),
        rng.zipf(2.0, 3),
        rng.dirichlet((1.0, 2.0, 3.0), size=2),
        rng.multivariate_normal((0.0, 1.0), ((1.0, 0.5), (0.5, 2.0)), 3),
    ),
    "numbers of distributions": lambda rng, x: (
        x * rng.beta(1.0, 2.0),
        rng.binomial(10, 0.3),
        rng.exponential(),
        rng.gamma(2.0),
        rng.geometric(0.3) + 1,
        rng.hypergeometric(5, 6, 4),
        rng.poisson(3.0) * 2,
        rng.standard_normal(),
        rng.triangular(0.0, 0.5, 1.0),
        rng.zipf(3.0),
    ),
    "permutation": lambda rng, x: (rng.permutation(6), x[rng.permutation(3)], rng.permutation([1.5, 2.5, 3.5])),
    "permutation of an array": lambda rng, x: (rng.permutation(x), rng.permutation(x[0] * 2), rng.permutation(x.T)),
    "choice": lambda rng, x: (rng.choice(5, 3), x[:, rng.choice(4, size=2, replace=False)], rng.choice(9, (2, 2))),
    "choice with weights": lambda rng, x: (
        rng.choice(3, 4, p=[0.2, 0.3, 0.5]),
        rng.choice(4, size=3, p=WEIGHTS),
        x + 1,
    ),
    "choice of an array": lambda rng, x: (rng.choice(x[0], 5), rng.choice(x[1] * 2, size=(2, 3), replace=True)),
    "choice of a list": lambda rng, x: (rng.choice([0.5, 1.5, 2.5], 5), x * rng.choice((1, 2, 3), size=4)),
    "written in place": lambda rng, x: in_place(rng, x),
    "kept": lambda rng, x: (lambda draw: x + draw(size=4) - draw())(rng.normal),
    "is it one": lambda rng, x: (isinstance(rng, (np.random.Generator, np.random.RandomState)), rng is not None, x + 1),
    "a live array": lambda rng, x: rng.normal(x, 2.0) + rng.normal(WEIGHTS) + rng.poisson(x),
}


@pytest.mark.parametrize("make", [modern, legacy])
@pytest.mark.parametrize("name", DRAWS)
def test_draws(name, make):
    assert_draws_alike(DRAWS[name], make, X)


OF_GENERATORS = {
    "float32": lambda rng, x: (
        rng.random(5, dtype=np.float32),
        rng.standard_normal((2, 3), dtype=np.float32) * np.float32(2),
        rng.standard_exponential(3, dtype="float32", method="inv"),
        rng.standard_gamma(2.0, 3, np.float32),
        x + 1,
    ),
    "integers": lambda rng, x: (
        rng.integers(0, 10, 5),
        rng.integers(10, size=(2, 3)),
        rng.integers(-5, high=5, size=4, dtype=np.int32),
        rng.integers(0, 255, 7, np.uint8, endpoint=True),
        rng.integers(2, size=3, dtype=bool),
        x[:, rng.integers(0, 4, 6)],
    ),
    "permuted": lambda rng, x: (rng.permuted(x, axis=1), rng.permuted([1.5, 2.5, 3.5]), x + 1),
    "axes": lambda rng, x: (rng.permutation(x, axis=1), rng.choice(x, 2, axis=1), rng.choice(6, 3, shuffle=False)),
    "multivariate hypergeometric": lambda rng, x: (rng.multivariate_hypergeometric([3, 4, 5], 4, size=2), x + 1),
}


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("name", OF_GENERATORS)
def test_draws_of_generators(name, bits):
    assert_draws_alike(OF_GENERATORS[name], lambda: np.random.Generator(bits(3)), X)


OF_RANDOM_STATES = {
    "rand": lambda rng, x: (rng.rand(3, 4) + x, rng.rand() * x, rng.randn(4) * x, rng.randn(), rng.rand(2)),
    "randint": lambda rng, x: (
        rng.randint(0, 10, 5),
        rng.randint(5, size=(2, 2), dtype=np.int8),
        x[:, rng.randint(4, size=6)],
    ),
    "random_sample": lambda rng, x: (rng.random_sample(3), rng.random_sample(), rng.random_sample((2, 2)), x + 1),
    "an odd count of normal numbers": lambda rng, x: (
        rng.randn(3),
        rng.randn(),
        rng.standard_normal(2),
        x + rng.normal(),
    ),
    "seeded": lambda rng, x: (rng.seed(3), rng.randn(3), rng.seed(4), rng.rand(2) + x[0, :2]),
    "seeded by an argument": lambda rng, x: (rng.seed(x.shape[0]), x + rng.randn(4)),
}


@pytest.mark.parametrize("name", OF_RANDOM_STATES)
@pytest.mark.parametrize("bits", [np.random.MT19937, np.random.PCG64])
def test_draws_of_random_states(name, bits):
    if "seeded" in name and bits is not np.random.MT19937:
        pytest.skip("NumPy seeds MT19937 alone")
    make = legacy if bits is np.random.MT19937 else lambda: np.random.RandomState(bits(3))
    assert_draws_alike(OF_RANDOM_STATES[name], make, X)


# ---- ints

INTS = {
    "an index": lambda rng, x: x[rng.integers(3)] * 2,
    "returned": lambda rng, x: (
        rng.integers(0, 10),
        rng.integers(5, dtype=np.int32),
        rng.integers(0, 5, endpoint=True),
        x + 1,
    ),
    "as an int": lambda rng, x: (x * int(rng.integers(1, 7)), int(rng.integers(100)) + 1),
    "a factor": lambda rng, x: x * rng.integers(2, 9),
    "a size": lambda rng, x: (np.zeros(rng.integers(3, 6)) + rng.normal(), x + 1),
    "a size of a draw": lambda rng, x: (rng.normal(size=rng.integers(3, 6)) + 1, x + 1),
    "choice": lambda rng, x: (x[rng.choice(3)] + rng.choice(5), rng.choice(7)),
    "crop": lambda rng, x: (lambda top: x[top : top + 2] * 2)(rng.integers(0, 2)),
}


@pytest.mark.native
@pytest.mark.parametrize("name", INTS)
def test_ints_of_generators(name):
    assert_draws_alike(INTS[name], modern, X, calls=8)


LEGACY_INTS = {
    "an index": lambda rng, x: x[rng.randint(3)] * 2,
    "returned": lambda rng, x: (rng.randint(0, 10), rng.choice(5), rng.tomaxint(3) >= 0, x + 1),
    "a factor": lambda rng, x: x * rng.randint(2, 9) + rng.poisson(3.0),
    "crop": lambda rng, x: (lambda top: x[top : top + 2] * 2)(rng.randint(0, high=2)),
}


@pytest.mark.parametrize("name", LEGACY_INTS)
def test_ints_of_random_states(name):
    assert_draws_alike(LEGACY_INTS[name], legacy, X, calls=8, fullgraph=NATIVE)
