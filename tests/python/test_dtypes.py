"""Half and integer types: what eager computes, with its roundings and its errors."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import cdynamo  # noqa: E402

HALF_TYPES = [torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def fresh():
    cdynamo.reset()


def gradients(f, inputs):
    """f's result and its gradients for all inputs."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    result = f(*inputs)
    return result, *torch.autograd.grad(result, inputs, torch.ones_like(result))


def check_gradients(f, inputs):
    for got, expected in zip(gradients(cdynamo.optimize(f), inputs), gradients(f, inputs), strict=True):
        torch.testing.assert_close(got, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_group_norm_differentiates_with_rounded_statistics(dtype):
    x = torch.tensor([[-8.5, -1.765625, -4.3125]], dtype=dtype)
    check_gradients(lambda x, w: F.group_norm(x, 1, w), [x, x[0]])
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(*s).to(dtype) * 6 for s in ((2, 6, 3), (6,), (6,)))
    for eps in (0.5, -0.5, 1e-5):
        check_gradients(lambda x, w, b, eps=eps: F.group_norm(x, 2, w, b, eps=eps), [x, weight, bias])


def test_group_norm_with_wide_parameters_keeps_wide_statistics():
    torch.manual_seed(0)
    x = torch.randn(2, 6, 3).bfloat16() * 6
    check_gradients(lambda x, w, b: F.group_norm(x, 2, w, b), [x, torch.randn(6), torch.randn(6)])


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_group_norm_of_a_constant_group(dtype):
    check_gradients(lambda x: F.group_norm(x, 1, eps=1e-12), [torch.full((2, 3), 2.0, dtype=dtype)])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_soft_margin_loss_overflows_where_eager_does(reduction):
    x = torch.tensor([-8.5, -1.75, 4.3, 3.1, -0.5], dtype=torch.float16)
    target = torch.tensor([3.6, -8.1, -2.5, 1.0, -1.0], dtype=torch.float16)
    check_gradients(lambda x: F.soft_margin_loss(x, target, reduction=reduction), [x])
    assert torch.isnan(gradients(lambda x: F.soft_margin_loss(x, target), [x])[1]).any()


def test_second_derivative_of_a_slope_that_is_written_out():
    target = torch.tensor([1.0, -1.0, 1.0, -1.0])

    def curvature(dtype):
        x = torch.tensor([-1.5, -0.75, 0.25, 2.0], dtype=dtype, requires_grad=True)
        loss = cdynamo.optimize(lambda x: F.soft_margin_loss(x, target.to(dtype), reduction="sum"))(x)
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)
        return torch.autograd.grad(slope.sum(), x)[0].double()

    torch.testing.assert_close(curvature(torch.float16), curvature(torch.float64), rtol=1e-2, atol=1e-3)


def test_a_quotient_rounds_in_eagers_order():
    torch.manual_seed(0)
    x, y = (torch.randn(200).half() + 2 for _ in range(2))
    got = gradients(cdynamo.optimize(lambda x, y: x / y), [x, y])
    for a, b in zip(got, gradients(lambda x, y: x / y, [x, y]), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
@pytest.mark.parametrize("start, end", [(4.3, 0), (0, 7.9), (3, 45)])
def test_linspace_of_integers_converts_its_bounds_first(dtype, start, end):
    def f():
        return torch.linspace(start, end, 50, dtype=dtype)

    assert torch.equal(cdynamo.optimize(f)(), f())
    assert cdynamo.counters()["graph_breaks"] == 0
