"""torch.einsum and numpy.einsum with ellipses, in one graph: results, strides, gradients and errors are the framework's."""

import numpy as np
import pytest

import cdynamo

torch = pytest.importorskip("torch")

EQUATIONS = [
    ("... i d, ... j d -> ... i j", (2, 3, 4), (2, 5, 4)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 6)),
    ("...ij,jk->...ik", (2, 3, 4), (4, 6)),
    ("ij,...jk->...ik", (3, 4), (7, 4, 6)),
    ("b h i d, ... d -> ... b h i", (2, 3, 4, 5), (5,)),
    ("...i,...i", (3, 4), (2, 3, 4)),
    ("i...,i...->...", (3, 4), (3, 4)),
    ("...ab,...bc", (2, 2, 3), (2, 3, 4)),
    ("...i,...i->i", (3, 4), (1, 4)),
    ("i...j,jk->k...i", (2, 3, 5, 4), (4, 6)),
    ("...,...->...", (3, 4), (4,)),
    ("...,->...", (3, 4), ()),
    ("...ii->...i", (2, 3, 3)),
    ("...i->...", (2, 3, 4)),
    ("ba...->ab...", (2, 3, 4)),
    ("...ij->ji", (2, 3, 4)),
    ("...", (2, 3)),
    ("zA...,Ab->...", (2, 3, 4), (3, 2)),
    ("...a,...b", (3, 2), (3, 4)),
]


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize(("equation", "sizes"), [(equation, sizes) for equation, *sizes in EQUATIONS])
def test_ellipses(equation, sizes, backend):
    def f(*operands):
        return torch.einsum(equation, *operands)

    operands = [torch.randn(size, requires_grad=True) for size in sizes]
    expected, got = f(*operands), cdynamo.optimize(f, fullgraph=True, backend=backend)(*operands)
    assert got.stride() == expected.stride()
    torch.testing.assert_close(got, expected)
    weight = torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(got, operands, weight), torch.autograd.grad(expected, operands, weight)
    )


@pytest.mark.parametrize(("equation", "sizes"), [(equation, sizes) for equation, *sizes in EQUATIONS])
def test_ellipses_under_autocast(equation, sizes):
    def f(*operands):
        with torch.autocast("cpu", torch.bfloat16):
            return torch.einsum(equation, *operands)

    operands = [torch.randn(size) for size in sizes]
    torch.testing.assert_close(cdynamo.optimize(f)(*operands), f(*operands))


def test_views_are_written_through():
    def f(x):
        view = torch.einsum("...i->i...", x)
        view.mul_(2)
        return x + 0, view

    for size in ((2, 3), (4,), (2, 1, 3)):
        x = torch.randn(size)
        expected, got = f(x.clone()), cdynamo.optimize(f, fullgraph=True)(x)
        assert all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(expected, got))
        assert torch.equal(x, expected[0])


def outcome(f, operands):
    try:
        return f(*operands)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize(("equation", "sizes"), [(equation, sizes) for equation, *sizes in EQUATIONS])
def test_ellipses_of_numpy(equation, sizes):
    def f(*operands):
        return np.einsum(equation, *operands)

    operands = [np.random.default_rng(0).standard_normal(size) for size in sizes]
    expected, got = outcome(f, operands), outcome(cdynamo.optimize(f), operands)
    if isinstance(expected, tuple):
        assert got == expected
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("equation", "sizes"),
    [
        ("......i,i", ((2, 3), (3,))),
        ("...ij,j", ((3,), (3,))),
        ("..i,i", ((2, 3), (3,))),
        ("...i,...i->...", ((3, 4), (2, 4))),
    ],
)
def test_errors(equation, sizes):
    def f(*operands):
        return torch.einsum(equation, *operands)

    operands = [torch.ones(size) for size in sizes]
    assert outcome(cdynamo.optimize(f), operands) == outcome(f, operands)
