"""Convolutions of many shapes: as exact as eager's, against float64."""

from __future__ import annotations

import itertools

import pytest

import cdynamo

torch = pytest.importorskip("torch")

CHANNELS = [(6, 6, 6), (4, 8, 4), (3, 20, 1), (8, 8, 2), (20, 6, 2), (64, 64, 1), (200, 96, 1)]  # in, out, groups
SIZES = [(1, 1), (7, 7), (9, 33), (20, 17)]
KERNELS = [
    (3, 1, 1, 1),
    (3, 2, 1, 1),
    (5, 1, 2, 1),
    (7, 2, 3, 1),
    (3, 1, 0, 1),
    (1, 1, 0, 1),
    (7, 1, 3, 1),
    (3, 1, 2, 2),
    (5, 3, 1, 1),
]


@pytest.fixture(autouse=True)
def many_shapes(monkeypatch):
    torch.manual_seed(0)
    cdynamo.reset()
    monkeypatch.setattr(cdynamo.config, "recompile_limit", 1000)


def relative_error(value, exact):
    return ((value.double() - exact).norm() / exact.norm().clamp_min(1e-9)).item()


@pytest.mark.parametrize("channels", CHANNELS, ids=str)
def test_forward(channels):
    inputs, outputs, groups = channels
    for (height, width), (kernel, stride, padding, dilation) in itertools.product(SIZES, KERNELS):
        if min(height, width) + 2 * padding < dilation * (kernel - 1) + 1:
            continue
        bias = torch.randn(outputs) if width % 2 else None
        image = torch.randn(2, inputs, height, width)
        if kernel == 5:
            image = image.to(memory_format=torch.channels_last)
        weight = torch.randn(outputs, inputs // groups, kernel, kernel)

        def convolve(image, weight, bias):
            return torch.nn.functional.conv2d(image, weight, bias, stride, padding, dilation, groups)

        got, eager = cdynamo.optimize(convolve)(image, weight, bias), convolve(image, weight, bias)
        exact = convolve(image.double(), weight.double(), None if bias is None else bias.double())
        where = f"{height}x{width}, kernel {kernel}, stride {stride}, padding {padding}, dilation {dilation}"
        assert got.stride() == eager.stride(), where
        assert relative_error(got, exact) <= max(2 * relative_error(eager, exact), 3e-7), where


@pytest.mark.parametrize("channels", CHANNELS, ids=str)
def test_gradients(channels):
    inputs, outputs, groups = channels
    for size, (kernel, stride, padding, dilation) in itertools.product((7, 17), KERNELS):
        if size + 2 * padding < dilation * (kernel - 1) + 1:
            continue
        image = torch.randn(2, inputs, size, size + 1, requires_grad=True)
        weight = torch.randn(outputs, inputs // groups, kernel, kernel, requires_grad=True)

        def convolve(image, weight):
            return torch.nn.functional.conv2d(image, weight, None, stride, padding, dilation, groups)

        def gradients(function, *operands):
            out = function(*operands)
            return torch.autograd.grad(out, operands, cotangent.to(out.dtype))

        cotangent = torch.randn(convolve(image, weight).shape)
        exact = gradients(convolve, image.double(), weight.double())
        eager = gradients(convolve, image, weight)
        for got, expected, right in zip(gradients(cdynamo.optimize(convolve), image, weight), eager, exact):
            assert got.stride() == expected.stride()
            assert relative_error(got, right) <= max(2 * relative_error(expected, right), 3e-7), (
                f"{size}, kernel {kernel}, stride {stride}, padding {padding}, dilation {dilation}"
            )


VOLUMES = [
    # channels in, out, groups, kernel, stride, padding, dilation
    (4, 6, 1, (3, 3, 3), 1, 1, 1),
    (8, 4, 2, (3, 2, 1), (2, 1, 3), (1, 0, 2), 1),
    (6, 6, 6, (3, 3, 3), 1, 1, 1),
    (3, 40, 1, (1, 5, 5), (1, 2, 2), (0, 2, 2), 1),
    (64, 32, 1, (2, 3, 3), 1, 0, (1, 2, 1)),
    (16, 8, 1, (1, 1, 1), 1, 0, 1),
]


@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("shape", VOLUMES, ids=str)
def test_volumes_and_their_gradients(shape, transposed):
    inputs, outputs, groups, kernel, stride, padding, dilation = shape
    image = torch.randn(2, inputs, 7, 8, 9, requires_grad=True)
    channels = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
    weight = torch.randn(*channels, *kernel, requires_grad=True)
    bias = torch.randn(outputs, requires_grad=True)

    def convolve(image, weight, bias):
        if transposed:
            return torch.nn.functional.conv_transpose3d(image, weight, bias, stride, padding, 0, groups, dilation)
        return torch.nn.functional.conv3d(image, weight, bias, stride, padding, dilation, groups)

    def everything(function, *operands):
        out = function(*operands)
        return out, *torch.autograd.grad(out, operands, torch.ones_like(out))

    exact = everything(convolve, image.double(), weight.double(), bias.double())
    eager = everything(convolve, image, weight, bias)
    for got, expected, right in zip(everything(cdynamo.optimize(convolve), image, weight, bias), eager, exact):
        assert got.stride() == expected.stride()
        assert relative_error(got, right) <= max(3 * relative_error(expected, right), 3e-7)
