"""Complex numbers of which a part is infinite, NaN or a zero of either sign, in sums and functions: eager's, which multiplies the second
operand of a sum by one."""

from __future__ import annotations

import itertools

import pytest

import cdynamo

torch = pytest.importorskip("torch")

NAN, INF = float("nan"), float("inf")
PARTS = [0.0, -0.0, 1.0, -2.5, INF, -INF, NAN]
Z = torch.tensor([complex(real, imag) for real, imag in itertools.product(PARTS, PARTS)])
OPERANDS = {
    "tensor": Z.flip(0).roll(3),
    "wide tensor": Z.roll(5).to(torch.complex128),
    "real tensor": torch.tensor(PARTS * 7),
    "wide real tensor": torch.tensor(PARTS * 7, dtype=torch.float64),
    "integers": torch.arange(49) - 20,
    "bools": torch.arange(49) > 20,
    "no dims": Z[13],
    "one": Z[-2:-1],
    "number": -2,
    "NaN": NAN,
    "complex number": complex(1, -0.0),
}
SUMS = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "reflected": lambda a, b: torch.rsub(a, b),
    "of a conjugate": lambda a, b: a.conj() + (b.conj() if isinstance(b, torch.Tensor) else b),
    "in place": lambda a, b: a.clone().add_(b) if a.dim() else a + b,
    "difference in place": lambda a, b: a.clone().sub_(b) if a.dim() else a - b,
    "twice": lambda a, b: torch.add(a, b, alpha=2),
    "half": lambda a, b: torch.sub(a, b, alpha=0.5),
    "swapped": lambda a, b: b + a,
    "difference, swapped": lambda a, b: b - a,
    "quotient of a number": lambda a, b: 2 / a if isinstance(b, int) else a + b,
}
FUNCTIONS = ["abs", "angle", "cos", "cosh", "exp", "expm1", "log", "log1p", "reciprocal", "sgn", "sigmoid", "sin", "sinh", "sqrt", "square", "tan", "tanh", "isfinite", "isinf", "isnan"]  # fmt: skip


def texts(result):
    """Numbers as texts, in which zeros have signs and NaN is NaN."""
    if not isinstance(result, torch.Tensor):
        return type(result), repr(result)
    plain = torch.view_as_real(result.resolve_conj()) if result.is_complex() else result
    return result.dtype, [repr(number) for number in plain.flatten().tolist()]


def outcome(function, *args):
    try:
        return texts(function(*args))
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize("sum_of", SUMS)
def test_sums(sum_of, name):
    for z in Z, Z.to(torch.complex128), Z[20]:
        fast = cdynamo.optimize(SUMS[sum_of])
        assert outcome(fast, z, OPERANDS[name]) == outcome(SUMS[sum_of], z, OPERANDS[name])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    function = getattr(torch, name)
    for z in Z, Z.to(torch.complex128):
        got, expected = cdynamo.optimize(lambda z: function(z))(z), function(z)
        torch.testing.assert_close(got, expected, equal_nan=True)
        if expected.is_complex():
            for ours, eagers in (got.real, expected.real), (got.imag, expected.imag):
                torch.testing.assert_close(ours, eagers, equal_nan=True)


def test_gradients_of_sums():
    def f(a, b):
        return torch.view_as_real(a - b.conj() + torch.add(b, a, alpha=2)).sum()

    gradients = []
    for call in f, cdynamo.optimize(f):
        a, b = (z.clone().requires_grad_() for z in (Z, Z.roll(5)))
        gradients.append(torch.autograd.grad(call(a, b), (a, b)))
    assert [texts(each) for each in gradients[1]] == [texts(each) for each in gradients[0]]
