"""Gradients where a function has no slope, and of NaN and infinity: what eager gives, number for number."""

import itertools
import math

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import cdynamo  # noqa: E402

INF, NAN = math.inf, math.nan
NUMBERS = [-INF, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0, INF, NAN]

UNARY = {
    "abs": torch.abs,
    "sign": torch.sign,
    "relu": F.relu,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "softshrink": lambda x: F.softshrink(x, 0.5),
    "hardshrink": lambda x: F.hardshrink(x, 0.5),
    "threshold": lambda x: F.threshold(x, 0.5, 1.0),
    "clamp": lambda x: x.clamp(-1, 1),
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "celu": F.celu,
    "selu": F.selu,
    "softplus": F.softplus,
    "mish": F.mish,
    "silu": F.silu,
    "gelu": F.gelu,
    "logsigmoid": F.logsigmoid,
    "softsign": F.softsign,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "logit": torch.logit,
    "logit_eps": lambda x: torch.logit(x, 0.25),
    "pow_3": lambda x: x**3,
    "pow_half": lambda x: x**0.5,
    "pow_0": lambda x: x**0,
    "pow_1": lambda x: x**1,
    "pow_minus_1": lambda x: x**-1,
    "pow_1.5": lambda x: x**1.5,
    "pow_0.3": lambda x: x**0.3,
    "2_pow": lambda x: 2**x,
    "0_pow": lambda x: 0.0**x,
    "floor": torch.floor,
    "div_floor": lambda x: torch.div(x, 2.0, rounding_mode="floor"),
    "div_trunc": lambda x: torch.div(x, 2.0, rounding_mode="trunc"),
    "remainder": lambda x: x % 2,
    "fmod": lambda x: torch.fmod(x, 2.0),
    "nan_to_num": torch.nan_to_num,
    "sinc": torch.sinc,
    "entr": torch.special.entr,
    "atan2_0": lambda x: torch.atan2(x, torch.zeros_like(x)),
    "hypot_0": lambda x: torch.hypot(x, torch.zeros_like(x)),
    "xlogy_0": lambda x: torch.xlogy(0.0, x),
    "frac": torch.frac,
    "l1_loss": lambda x: F.l1_loss(x, torch.zeros_like(x), reduction="none"),
    "smooth_l1": lambda x: F.smooth_l1_loss(x, torch.zeros_like(x), reduction="none"),
    "huber": lambda x: F.huber_loss(x, torch.zeros_like(x), reduction="none"),
}

PAIRS = [(1, 1), (1, 2), (NAN, 1), (1, NAN), (NAN, NAN), (0, 0), (-0.0, 0.0), (INF, INF), (-INF, -INF), (INF, -INF),
         (0, 1), (0, -1), (1, 0), (-1, 2), (-1, 0.5), (0.0, 0.5), (0.0, -0.5)]  # fmt: skip
BINARY = {
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "pow": torch.pow,
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "xlogy": torch.xlogy,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "copysign": torch.copysign,
    "div": torch.div,
    "clamp_min": lambda a, b: torch.clamp(a, min=b),
    "clamp_max": lambda a, b: torch.clamp(a, max=b),
}

ROWS = [[1.0, 2.0, 2.0], [2.0, 1.0, 2.0], [0.0, 0.0], [-INF, 1.0], [0.0, 3.0, 0.0, -2.0]]
REDUCTIONS = {
    "amax": lambda x: x.amax(0),
    "amin": lambda x: x.amin(0),
    "max": torch.max,
    "max_dim": lambda x: x.max(0)[0],
    "min_dim": lambda x: x.min(0)[0],
    "aminmax": lambda x: x.aminmax().max,
    "prod": torch.prod,
    "cumprod": lambda x: x.cumprod(0),
    "nansum": torch.nansum,
    "std": lambda x: x.std(0),
    "logsumexp": lambda x: x.logsumexp(0),
    "max_pool": lambda x: F.max_pool1d(x[None, None], x.shape[0]),
    "cosine_similarity": lambda x: F.cosine_similarity(x, torch.ones_like(x), dim=0),
    **{f"norm_{p}": lambda x, p=p: torch.linalg.vector_norm(x, p) for p in (0.5, 1, 1.5, 2, 3, INF, -INF, -1)},
}


def gradients(f, columns):
    inputs = [torch.tensor(column, dtype=torch.float64, requires_grad=True) for column in columns]
    out = f(*inputs)
    return torch.autograd.grad(out, inputs, torch.ones_like(out))


def gradients_of_eager(f, columns):
    try:
        return gradients(f, columns)
    except RuntimeError as error:
        if "derivative for aten::" not in str(error):
            raise
        pytest.skip(f"this torch has none: {error}")


def assert_same(f, columns):
    cdynamo.reset()
    before = cdynamo.counters()["graphs_compiled"]
    got = gradients(cdynamo.optimize(lambda *x: f(*x)), columns)
    assert cdynamo.counters()["graphs_compiled"] > before
    for mine, eager in zip(got, gradients_of_eager(f, columns)):
        torch.testing.assert_close(mine, eager, equal_nan=True, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("name", UNARY)
def test_of_one_operand(name):
    if name != "logit":
        return assert_same(UNARY[name], [NUMBERS])
    # Of -0.0 among others eager's gradient has either sign, by the width of the processor's vectors.
    assert_same(UNARY[name], [[x for x in NUMBERS if str(x) != "-0.0"]])
    assert_same(UNARY[name], [[-0.0]])


@pytest.mark.parametrize("name", BINARY)
def test_of_two_operands(name):
    assert_same(BINARY[name], list(zip(*PAIRS)))


CLAMP_NUMBERS = [-INF, -1.0, 0.0, 1.0, INF, NAN]


def test_clamp_between_tensors():
    assert_same(torch.clamp, list(zip(*itertools.product(CLAMP_NUMBERS, repeat=3))))


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.0, None), (None, 1.0)])
def test_clamp_between_numbers(bounds):
    assert_same(lambda x: torch.clamp(x, *bounds), [CLAMP_NUMBERS])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_of_reductions(name):
    for row in ROWS:
        if name == "norm_-1" and INF in map(abs, row):
            continue  # 0 or NaN, as the formula is written
        if name in ("prod", "cumprod") and -INF in row:
            continue  # eager divides by the element and gets NaN
        assert_same(REDUCTIONS[name], [row])


def test_embedding_leaves_the_padding_row():
    weight = torch.randn(5, 3)
    index = torch.tensor([[0, 2, 2], [4, 2, 1]])

    def run(f):
        w = weight.clone().requires_grad_()
        return torch.autograd.grad(f(w).sum(), w)[0]

    def embed(w):
        return F.embedding(index, w, padding_idx=2) * 2

    torch.testing.assert_close(run(cdynamo.optimize(embed)), run(embed))


# Views that move, add or drop dims of size 1 leave their trace in the strides of gradients, and so do permuted
# operands.
STRIDES = {
    "einsum_unit": (lambda x, y: torch.einsum("ij,kj->ik", x, y), (2, 3), (1, 3)),
    "einsum_unit_batch": (lambda x, y: torch.einsum("aij,ajk->aik", x, y), (1, 2, 3), (1, 3, 4)),
    "einsum_no_batch": (lambda x, y: torch.einsum("aij,jk->aik", x, y), (1, 3, 4), (4, 4)),
    "einsum_outer": (lambda x, y: torch.einsum("i,jk->ijk", x, y), (4,), (1, 5)),
    "einsum_three": (lambda x, y: torch.einsum("ij,kj,k->ik", x, y, y[:, 0]), (2, 3), (1, 3)),
    "tensordot_number": (lambda x, y: torch.tensordot(x, y, ([0, 1], [2, 0])), (2, 2, 1), (2, 1, 2)),
    "tensordot_contiguous_number": (lambda x, y: torch.tensordot(x, y, 1), (1, 1, 3), (3, 1, 1)),
    "tensordot_rows": (lambda x, y: torch.tensordot(x, y, 1), (2, 1, 3), (3, 1, 1)),
    "sum_of_everything": (lambda x, y: x.sum() + y.sum(), (3, 2, 1, 2), (2, 1)),
    "sum_over_all_dims": (lambda x, y: x.sum((0, 1, 2, 3)) + y.sum((0, 1)), (3, 2, 1, 2), (2, 1)),
    "sum_keepdim": (lambda x, y: x.sum((1, 2), keepdim=True) + y.sum(0, keepdim=True), (3, 2, 1, 2), (2, 1)),
    "unsqueezed_and_permuted": (lambda x, y: x.unsqueeze(2).permute(2, 0, 1) + y, (1, 3), (1, 1, 3)),
    "product_with_transposed": (lambda x, y: (x * y.t()).sum(), (3, 4), (4, 3)),
    "sine_of_transposed": (lambda x, y: (x.t() * y).sin().sum(), (3, 4), (4, 3)),
    "three_dims": (lambda x, y: (x.permute(2, 0, 1) * y).exp().sum(0), (2, 3, 4), (4, 2, 3)),
}


@pytest.mark.parametrize("name", STRIDES)
def test_strides_of_gradients(name):
    function, *sizes = STRIDES[name]
    torch.manual_seed(0)
    inputs = [torch.randn(size, requires_grad=True) for size in sizes]

    def gradients(call):
        result = call(*inputs)
        return torch.autograd.grad(result, inputs, torch.ones_like(result))

    before = cdynamo.counters()["graphs_compiled"]
    got = gradients(cdynamo.optimize(function))
    assert cdynamo.counters()["graphs_compiled"] == before + 1
    for ours, eager in zip(got, gradients(function)):
        torch.testing.assert_close(ours, eager)
        assert ours.stride() == eager.stride()


@pytest.mark.parametrize("numbers", [[1.0, 2.0, 3.0, 4.0], [2.0, 0.0, 3.0, 4.0], [2.0, 0.0, 0.0, 4.0], [0.0] * 4])
def test_second_derivatives_of_a_product_with_zeros(numbers):
    def derivatives(product):
        x = torch.tensor(numbers, dtype=torch.float64, requires_grad=True)
        (first,) = torch.autograd.grad(product(x), x, create_graph=True)
        return first, torch.stack([torch.autograd.grad(each, x, retain_graph=True)[0] for each in first])

    for ours, eager in zip(derivatives(cdynamo.optimize(torch.Tensor.prod)), derivatives(torch.Tensor.prod)):
        torch.testing.assert_close(ours, eager)


@pytest.mark.native
def test_forward_mode_where_nothing_is_finite():
    def tangent(x, v):
        return torch.func.jvp(lambda a: torch.nan_to_num(a / 0.0), (x,), (v,))[1]

    x = torch.tensor([1.0, -2.0, 0.0])
    torch.testing.assert_close(cdynamo.optimize(tangent)(x, x + 1), tangent(x, x + 1), equal_nan=True)


def test_a_derivative_that_eager_refuses():
    def loss(x):
        return (torch.heaviside(x, torch.tensor(1.0)) * x).sum()

    def inside(x):
        return torch.func.grad(loss)(x)

    for run in (loss, cdynamo.optimize(loss)):
        value = run(torch.tensor([1.0, -1.0], requires_grad=True))
        assert value.item() == 1
        with pytest.raises(RuntimeError, match="heaviside is not implemented"):
            value.backward()
    for run in (inside, cdynamo.optimize(inside)):
        with pytest.raises(RuntimeError, match="heaviside is not implemented"):
            run(torch.ones(2))
    assert cdynamo.optimize(loss)(torch.ones(2)) == 2
