"""Blocks of columns that are shifted against each other by rows: masks that are constant in part of a vector."""

import pytest

torch = pytest.importorskip("torch")

import cdynamo  # noqa: E402


def shifted_right_half(x):
    cut = x.shape[1] // 2
    below = torch.cat((torch.zeros(1, x.shape[1] - cut, dtype=x.dtype), x[:-1, cut:]))
    return torch.cat((x[:, :cut], below), 1)


def padded_left_half(x):
    cut = x.shape[1] // 2
    left = torch.nn.functional.pad(x[:, :cut], (0, x.shape[1] - cut, 1, -1))
    return left + torch.nn.functional.pad(x[:, cut:], (cut, 0))


def both_moved(x):
    third = x.shape[1] // 3
    return torch.cat((x[1:, :third], x[:-1, third : 2 * third], x[1:, 2 * third :]), 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("columns", [8, 12, 16, 24, 32, 48, 64])
@pytest.mark.parametrize("function", [shifted_right_half, padded_left_half, both_moved])
def test_values_and_gradients_equal_eager(function, columns, dtype):
    compiled = cdynamo.optimize(function)
    for rows in (2, 3, 12, 17):
        outputs = []
        for call in (function, compiled):
            x = torch.linspace(-1, 1, rows * columns, dtype=dtype).reshape(rows, columns).requires_grad_()
            y = call(x)
            y.pow(2).sum().backward()
            outputs.append((y.detach(), x.grad))
        torch.testing.assert_close(outputs[1], outputs[0], rtol=0, atol=0)
