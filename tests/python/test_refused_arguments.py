"""Sizes, lengths and widths that PyTorch and NumPy refuse: their errors, and no memory beyond an array."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cdynamo  # noqa: E402

F = torch.nn.functional

X, WEIGHT = torch.arange(24.0).reshape(2, 3, 4), torch.ones(3, 4, 2)
TORCH = {
    "addmm": lambda n: torch.addmm(X[0, :n], X[0], X[0].mT),
    "addmm of halves": lambda n: torch.addmm(X[0, :n].bfloat16(), X[0].bfloat16(), X[0].mT.bfloat16()),
    "baddbmm": lambda n: torch.baddbmm(X[:, :n], X, X.mT),
    "expand": lambda n: X.expand(n, 3, 4),
    "expand of one": lambda n: X[:, :1].expand(2, n, 4),
    "expand_as": lambda n: X[:, :n].expand_as(X),
    "broadcast_to": lambda n: torch.broadcast_to(X, (n, 2, 3, 4)),
    "meshgrid": lambda n: torch.meshgrid(X[0, 0], X[0, :, :n], indexing="ij")[0],
    "meshgrid of dtypes": lambda n: torch.meshgrid(X[0, 0], X[0, :, n].double(), indexing="xy")[0],
    "where": lambda n: torch.where(X > 3, X[:, :n], 0.0),
    "copy": lambda n: torch.zeros(2, 3, 4).copy_(X[:, :n]),
    "masked_fill": lambda n: X.masked_fill(X[:, :n] > 3, 1.0),
    "output_padding": lambda n: F.conv_transpose1d(X, WEIGHT, None, 3, 0, n),
    "kernel": lambda n: F.conv1d(X, torch.ones(2, 3, max(n, 0))),
    "padding": lambda n: F.conv_transpose1d(X, WEIGHT, None, 2, n, 1),
    "bias": lambda n: F.linear(X, X[0], torch.ones(3)[:n]),
    "normalized": lambda n: F.layer_norm(X, (4,), torch.ones(4)[:n]),
}
ARRAY = X.double().numpy()
NUMPY = {
    "broadcast_to": lambda n: np.broadcast_to(ARRAY, (n, 2, 3, 4)),
    "average": lambda n: np.average(ARRAY, axis=1, weights=np.ones(abs(n))),
    "average of columns": lambda n: np.average(ARRAY, axis=2, weights=np.ones(abs(n))),
    "where": lambda n: np.where(ARRAY > 3, ARRAY[:, :n], 0),
    "take": lambda n: np.take(ARRAY, n, 0),
    "tile": lambda n: np.tile(ARRAY, n),
    "repeat": lambda n: np.repeat(ARRAY, n, 0),
}


def outcome(function, *args):
    try:
        return function(*args)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("dynamic", [False, None], ids=["static", "as it comes"])
@pytest.mark.parametrize("name", TORCH)
def test_torch(name, dynamic):
    fast = cdynamo.optimize(TORCH[name], dynamic=dynamic)
    for n in [3, 1, 2, 0, -1, -2, 4]:
        expected, got = outcome(TORCH[name], n), outcome(fast, n)
        if isinstance(expected, tuple):
            assert got == expected, n
        else:
            torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("dynamic", [False, None], ids=["static", "as it comes"])
@pytest.mark.parametrize("name", NUMPY)
def test_numpy(name, dynamic):
    fast = cdynamo.optimize(NUMPY[name], dynamic=dynamic)
    for n in [3, 1, 2, 0, -1, -2, 4]:
        expected, got = outcome(NUMPY[name], n), outcome(fast, n)
        if isinstance(expected, tuple):
            assert got == expected, n
        else:
            np.testing.assert_allclose(got, expected)
