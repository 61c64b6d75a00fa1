"""Operands whose dtypes or shapes do not go together: eager's result, or its error. Found by tests/sweeps/mixed_operands.py."""

import numpy as np
import pytest

import cdynamo

torch = pytest.importorskip("torch")
F = torch.nn.functional


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def assert_close(got, expected):
    half = isinstance(expected, torch.Tensor) and expected.dtype in (torch.float16, torch.bfloat16)
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if half else {}
    torch.testing.assert_close(got, expected, equal_nan=True, **tolerance)


def same_outcome(function, *arguments):
    """The error or the result of eager, and what it leaves in the arguments."""

    def outcome():
        given = [torch.clone(each) if isinstance(each, torch.Tensor) else each for each in arguments]
        try:
            return function_to_call(*given), given
        except Exception as error:
            return error, given

    function_to_call = function
    expected, left = outcome()
    function_to_call = cdynamo.optimize(function)
    got, also_left = outcome()
    if isinstance(expected, Exception) or isinstance(got, Exception):
        assert type(got) is type(expected), (expected, got)
    else:
        assert_close(got, expected)
    torch.testing.assert_close(also_left, left, equal_nan=True)
    return expected


@pytest.mark.parametrize("values", [[2, 0, 4], [3, 0, 0], [0, 0, 0], [1, 1, 1, 1]])
@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "bool"])
def test_sums_as_bools(values, dtype):
    x = torch.tensor(values).to(getattr(torch, dtype))
    assert same_outcome(lambda x: x.sum(dtype=torch.bool), x).item() == any(values)
    same_outcome(lambda x: x.expand(40, -1).sum(0, dtype=torch.bool), x)
    try:
        torch.nansum(x, dtype=torch.bool)
    except NotImplementedError:  # torch 2.11 has no such kernel
        assert cdynamo.optimize(lambda x: torch.nansum(x, dtype=torch.bool))(x).item() == any(values)
    else:
        same_outcome(lambda x: torch.nansum(x, dtype=torch.bool), x)
    same_outcome(lambda x: x.prod(dtype=torch.bool), x)
    same_outcome(lambda x: x.cumsum(0, dtype=torch.bool), x)
    same_outcome(lambda x: x.cumprod(0, dtype=torch.bool), x)


def test_numpy_sums_as_bools():
    def f(x):
        return x.sum(dtype=bool), np.cumsum(x, dtype=bool), np.cumprod(x, dtype=bool), np.add.reduce(x > 1, dtype=bool)

    for x in (np.array([2, 0, 4, 0]), np.zeros(3), np.array([1.5, 3.0])):
        for want, got in zip(f(x), cdynamo.optimize(f)(x)):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("index", [0, 2, -1])
def test_take_along_a_dim_of_a_number(index):
    same_outcome(lambda x, i: x.take_along_dim(i, 0), torch.tensor(3), torch.tensor(index))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "float32"])
def test_indices_of_any_dtype(dtype):
    index = torch.tensor([0, 1, 1]).to(getattr(torch, dtype))
    x = torch.randn(3, 4)
    same_outcome(lambda x, i: x[i], x, index)
    same_outcome(lambda x, i: x[0, i], x, index)
    same_outcome(lambda x, i: x.index_put((i,), x[0]), x, index)

    def write(x, i):
        x[i] = 1
        return x

    same_outcome(write, x, index)


@pytest.mark.parametrize("inner", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("outer", ["float32", "float64", "bfloat16"])
def test_parameters_of_normalizations(inner, outer):
    x = torch.randn(2, 3, 4).to(getattr(torch, outer))
    of_channels, of_rows = torch.rand(3).to(getattr(torch, inner)), torch.rand(4).to(getattr(torch, inner))
    same_outcome(lambda x, w: F.layer_norm(x, (4,), w), x, of_rows)
    same_outcome(lambda x, w: F.layer_norm(x, (4,), None, w), x, of_rows)
    same_outcome(lambda x, w: F.group_norm(x, 1, w), x, of_channels)
    same_outcome(lambda x, w: F.instance_norm(x, weight=w), x, of_channels)
    same_outcome(lambda x, w: F.batch_norm(x, None, None, w, training=True), x, of_channels)
    same_outcome(lambda x, w: F.batch_norm(x, w, w + 1), x, of_channels)


@pytest.mark.parametrize(
    "shapes", [((3,), (3,), (3,)), ((1, 3), (1, 3), (1, 3)), ((2, 3), (4, 3), (4,)), ((3,), (3,), ())]
)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_biases_of_linear(shapes, dtype):
    x, weight, bias = (torch.ones(shape).to(getattr(torch, dtype)) for shape in shapes)
    same_outcome(F.linear, x, weight, bias)
    same_outcome(F.linear, x, weight)


@pytest.mark.parametrize("weight", [(2,), (3, 2), (1, 2), (3,), ()])
def test_weights_of_classes(weight):
    x, weights = torch.randn(3, 2), torch.rand(weight)
    same_outcome(lambda x, y, w: F.cross_entropy(x, y, weight=w), x, torch.rand(3, 2), weights)
    same_outcome(lambda x, y, w: F.cross_entropy(x, y, weight=w), x, torch.tensor([0, 1, 1]), weights)


def test_integers_that_eager_has_no_kernel_for():
    integers, one = torch.tensor([[1, 2, 3], [0, -1, 1]]), torch.tensor([1])
    same_outcome(torch.logaddexp, integers, integers)
    same_outcome(torch.logaddexp2, integers, integers > 0)
    same_outcome(torch.logaddexp, integers, integers.float())
    same_outcome(F.prelu, integers, one)
    same_outcome(F.nll_loss, integers, torch.tensor([0, 2]))
    same_outcome(F.one_hot, integers.abs().int())
    same_outcome(F.one_hot, integers.abs())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_norms_in_another_dtype(dtype):
    for source in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        x = torch.randn(2, 3).to(source)
        same_outcome(lambda x: torch.linalg.vector_norm(x, dtype=getattr(torch, dtype)), x)


def test_sources_of_a_scatter_of_nothing():
    nothing = torch.zeros(0, 3, dtype=torch.int64)
    same_outcome(lambda x, i, s: x.scatter(0, i, s), torch.ones(2, 3), nothing, torch.ones(2, 3).half())
    same_outcome(lambda x, i, s: x.scatter_add(0, i, s), torch.ones(2, 3), nothing, torch.ones(2, 3))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_by_what_is_there(mode):
    for x in (
        torch.ones(2, 3, dtype=torch.bool),
        torch.ones(0, 3),
        torch.ones(0, 2, 3),
        torch.ones(2, 0, 3),
        torch.rand(2, 3),
    ):
        same_outcome(lambda x: F.pad(x, (1, 1), mode=mode), x)


def test_complex_magnitudes_in_place():
    same_outcome(lambda z: z.clone().abs_(), torch.tensor([3 + 4j]))
    same_outcome(lambda z: z.clone().neg_(), torch.tensor([3 + 4j]))
