"""Numbers of Python's and NumPy's beside arrays and tensors, the first time and when they have changed: dtypes, rounding, and what is
refused because it does not fit."""

from __future__ import annotations

import numpy as np
import pytest
from outcomes import needs_torch, outcome, torch

import cdynamo

A = np.arange(3, dtype=np.float32)
FLOATS = [2.5, 1.25, 3.5, -0.0]


def check(function, numbers):
    fast = cdynamo.optimize(function)
    for number in numbers:
        assert outcome(fast, number) == outcome(function, number), number
        alone = cdynamo.optimize(lambda *args: function(*args))
        assert outcome(alone, number) == outcome(function, number), number


@pytest.mark.parametrize("name", ["exp", "sqrt", "absolute", "sign", "floor", "positive", "negative", "square"])
def test_what_numpy_makes_of_a_float_is_a_float64(name):
    ufunc = getattr(np, name)
    check(lambda v: (ufunc(v) * A, ufunc(v)), FLOATS)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "fmin", "hypot", "copysign"])
def test_so_is_what_it_makes_of_two(name):
    ufunc = getattr(np, name)
    check(lambda v: (ufunc(v, 2.0) * A, A + ufunc(v, v), np.where(v > 0, v, 1.0) * A), FLOATS)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64])
def test_round_of_a_scalar_is_an_int(dtype):
    numbers = [dtype(2.5), dtype(3.5), dtype(-1.5)]
    check(lambda v: (round(v), round(v, None), round(v, 1), A * round(v)), numbers)
    check(lambda v: (np.squeeze(v), v.squeeze(), A * np.squeeze(v)), numbers)
    check(lambda a: (round(a.max()), round(a.max(), 1)), [np.array(numbers), np.array(numbers[1:])])


def test_round_of_what_is_no_number():
    check(round, [np.bool_(True), np.bool_(False)])
    check(round, [np.float64("nan"), np.float64("inf")])
    check(round, [A, A + 1])


def test_round_to_more_decimals_than_an_int_counts():
    check(lambda n: np.round(A, n), [1, 2, 2**40])


@needs_torch
def test_tensors_of_numpys_bools():
    numbers = [np.bool_(True), np.bool_(False)]
    check(lambda v: torch.tensor(v), numbers)
    check(lambda v: (torch.as_tensor(v), torch.tensor([v, v]), torch.tensor(v, dtype=torch.float16)), numbers)


@needs_torch
@pytest.mark.parametrize(
    "write", [lambda x, v: x.__setitem__(0, v), lambda x, v: x.fill_(v), lambda x, v: x.__setitem__(x > 1, v)]
)
@pytest.mark.parametrize("kind", ["int64", "uint8", "bool", "float32"])
def test_floats_are_written(write, kind):
    def written(v):
        x = torch.tensor([1, 2, 0]).to(getattr(torch, kind))
        write(x, v)
        return x

    check(written, [1.5, 2.5, 0.25, float("nan"), float("inf"), 1e300] if kind != "float32" else [1.5, float("nan")])


@needs_torch
def test_what_is_read_from_a_tensor_is_written_to_integers():
    def written(x):
        counts = torch.tensor([1, 2, 3])
        counts[0] = x.sum().item()
        return counts

    check(written, [torch.ones(3) * 1.5, torch.tensor([float("nan")])])


OVERFLOWS = {
    "where": lambda x, v: torch.where(x > 0, x, v),
    "where first": lambda x, v: torch.where(x > 0, v, x),
    "lerp": lambda x, v: torch.lerp(x, x + 1, v),
    "leaky_relu": lambda x, v: torch.nn.functional.leaky_relu(x, v),
    "elu": lambda x, v: torch.nn.functional.elu(x, v),
    "celu": lambda x, v: torch.nn.functional.celu(x, v),
    "softplus": lambda x, v: torch.nn.functional.softplus(x, v),
    "threshold of softplus": lambda x, v: torch.nn.functional.softplus(x, 1, v),
    "hardshrink": lambda x, v: torch.nn.functional.hardshrink(x, v),
    "softshrink": lambda x, v: torch.nn.functional.softshrink(x, abs(v)),
    "hinge": lambda x, v: torch.nn.functional.hinge_embedding_loss(x, torch.ones_like(x), margin=v),
    "huber": lambda x, v: torch.nn.functional.huber_loss(x, x * 2, delta=abs(v)),
    "smooth_l1": lambda x, v: torch.nn.functional.smooth_l1_loss(x, x * 2, beta=abs(v)),
}


@needs_torch
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", OVERFLOWS)
def test_constants_that_do_not_fit(name, kind):
    x = torch.tensor([1.0, -2.0, 0.5]).to(getattr(torch, kind))
    for number in (1e300, -1e300, 1e10, float("inf"), float("nan")):
        function = OVERFLOWS[name]
        cdynamo.reset()  # of a number that has changed float32's range is not asked
        fast = cdynamo.optimize(lambda x: function(x, number))  # noqa: B023
        (found, *_), (expected, *_) = outcome(fast, x), outcome(lambda x: function(x, number), x)  # noqa: B023
        assert (found is RuntimeError) == (expected is RuntimeError), number


@needs_torch
def test_elu_of_zero():
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, float("nan")])
    for alpha in (1.0, -5.0, float("inf"), float("nan")):
        for function in (torch.nn.functional.elu, torch.celu):
            expected = function(x, alpha)
            found = cdynamo.optimize(lambda x: function(x, alpha))(x)  # noqa: B023
            assert torch.equal(torch.signbit(found[:2]), torch.signbit(expected[:2]))
            torch.testing.assert_close(found, expected, equal_nan=True)
