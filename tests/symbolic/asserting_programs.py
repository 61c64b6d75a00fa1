"""Programs with `assert` in them, in a file in which pytest does not rewrite it."""

import pytest

torch = pytest.importorskip("torch")


def checks(x):
    n = (x > 0).sum().item()
    torch._check(n >= 0)
    torch._check(n <= 100)
    assert n < 1000 and n != 500
    return torch.ones(n).sum() if n <= 100 else None


def failing_assertion(x):
    n = (x > 0).sum().item()
    assert n < 2, "too many"
    return torch.ones(n)
