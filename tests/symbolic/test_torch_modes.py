"""torch.inference_mode, default devices and default dtypes in captured code: what they change, and what is left behind."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import cdynamo  # noqa: E402

pytestmark = pytest.mark.native  # backends in Python get a graph break there


@pytest.fixture(autouse=True)
def fresh():
    cdynamo.reset()
    cdynamo.config.keep_empty_graphs = True
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)


def state():
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.get_default_device(),
    )


def facts(value):
    if isinstance(value, (tuple, list)):
        return [facts(item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    # An inference tensor keeps no history to ask for.
    return value.tolist(), value.dtype, value.stride(), value.is_inference(), value.requires_grad, value.is_leaf


def check(fn, *make, fullgraph=True):
    fast = cdynamo.optimize(fn, fullgraph=fullgraph)
    for _ in range(3):
        expected = facts(fn(*(each() for each in make)))
        after = state()
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        assert facts(fast(*(each() for each in make))) == expected
        assert state() == after
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)


def plain():
    return torch.arange(4.0)


def weight():
    return torch.arange(4.0).requires_grad_()


# ---- inference_mode


@torch.inference_mode()
def decorated(x):
    return x * 3


def region(x):
    with torch.inference_mode():
        y = x * 2
        asked = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), y.is_inference(), y.requires_grad
    return y, x + 1, asked, torch.is_grad_enabled(), (y + 1).is_inference(), y[1:], y.reshape(2, 2)


def nested(x):
    with torch.inference_mode():
        with torch.inference_mode(False):
            normal = x * 2
        inference = x * 3
        with torch.no_grad():
            third = x + 1
    with torch.no_grad(), torch.inference_mode(mode=False):
        fourth = x * 4
    return normal, inference, third, fourth, torch.is_grad_enabled()


def written(x):
    with torch.inference_mode():
        y = torch.zeros(4)
        y += x
        y[0] = 5
        z = x.detach()
    return y, z.is_inference(), decorated(x)


def raises_inside(x):
    try:
        with torch.inference_mode():
            y = x * 2
            raise ValueError(2)
    except ValueError as error:
        return y, error.args[0], torch.is_inference_mode_enabled()


@pytest.mark.parametrize("make", [plain, weight])
@pytest.mark.parametrize("fn", [region, nested, written, raises_inside], ids=lambda fn: fn.__name__)
def test_inference_mode(fn, make):
    check(fn, make)


def test_results_share_memory_as_they_do_in_eager():
    def views(x):
        with torch.inference_mode():
            y = x * 2
        return y, y[1:]

    y, tail = cdynamo.optimize(views, fullgraph=True)(plain())
    with torch.inference_mode():
        y += 1
    assert torch.equal(tail, y[1:]) and y.is_inference() and tail.is_inference()
    with pytest.raises(RuntimeError, match="[Ii]nference"):
        y.add_(1)


def test_what_eager_refuses_is_refused():
    def saved(x):
        with torch.inference_mode():
            y = x * 2
        return y * x

    def written_later(x):
        with torch.inference_mode():
            y = x * 2
        y += 1
        return y

    for fn in (saved, written_later):
        with pytest.raises(RuntimeError, match="[Ii]nference"):
            fn(weight())
        with pytest.raises(RuntimeError, match="[Ii]nference"):
            cdynamo.optimize(fn)(weight())


def test_a_break_inside_is_left_to_python():
    def breaks(x):
        with torch.inference_mode():
            y = x * 2
            cdynamo.graph_break()
            z = y + 1
        return y, z

    check(breaks, plain, fullgraph=False)


# ---- devices


def device_region(x):
    with torch.device("cpu"):
        y = torch.ones(4) + torch.zeros(4, device="cpu") + torch.tensor([1.0, 2, 3, 4])
        inside = torch.get_default_device()
    return x + y, inside, torch.get_default_device()


def device_for_good(x):
    torch.set_default_device("cpu")
    y = torch.ones(4)
    asked = torch.get_default_device()
    torch.set_default_device(None)
    return x + y, asked


def device_left(x):
    torch.set_default_device("cpu")
    return x + torch.ones(4)


@pytest.mark.parametrize("fn", [device_region, device_for_good, device_left], ids=lambda fn: fn.__name__)
def test_default_devices(fn):
    check(fn, plain)


# ---- dtypes


def dtype_region(x):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        made = torch.ones(2), torch.zeros(2), torch.full((2,), 1.5), torch.full((2,), 1), torch.arange(3), torch.eye(2)
        more = torch.arange(0, 1, 0.25), torch.tensor([1.5, 2]), torch.tensor([1, 2]), torch.linspace(0, 1, 3)
        named = torch.ones(2, dtype=torch.float16), x + 1, x.to(torch.float32), torch.ones_like(x), torch.empty(0)
        asked = torch.get_default_dtype()
    finally:
        torch.set_default_dtype(before)
    return made, more, named, asked, torch.ones(2), torch.tensor(1.5)


def dtype_left(x):
    torch.set_default_dtype(torch.float64)
    return torch.ones(2), x


@pytest.mark.parametrize("fn", [dtype_region, dtype_left], ids=lambda fn: fn.__name__)
def test_default_dtypes(fn):
    check(fn, plain)


def test_quotients_of_ints_have_the_dtype_of_now():
    def quotient(n):
        torch.set_default_dtype(torch.float64)
        result = n / 2
        torch.set_default_dtype(torch.float32)
        return result, n / 2

    check(quotient, lambda: torch.arange(4), fullgraph=False)
