"""Calls that say the same as a common one in another way, each in one graph as in eager."""

from __future__ import annotations

import typing
import warnings

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from outcomes import outcome  # noqa: E402
from training_check import assert_same  # noqa: E402

X, I = torch.arange(12.0).reshape(3, 4), torch.tensor([5, -7, 2])
aten = torch.ops.aten

CALLS = {
    "numbers to copy": lambda x, i: [x.clone().copy_(0.1), i.clone().copy_(2.75), i.clone().copy_(True), x.clone().copy_(i.sum() * 0 + 3)],
    "digits of a number to copy": lambda x, i: x.double().copy_(0.1),
    "split by name": lambda x, i: torch.split(x, split_size_or_sections=2) + torch.split(x, split_size_or_sections=[1, 3], dim=1),
    "several of at least a dim": lambda x, i: (torch.atleast_1d(i[0], x), torch.atleast_2d([i, x]), torch.atleast_3d(i, x, i[0])),
    "one of at least a dim": lambda x, i: (torch.atleast_1d(i[0]), torch.atleast_2d([i]), torch.atleast_3d(x.t())),
    "quotients by a tensor": lambda x, i: (9 // i, i // i[0], i % i.abs(), 9 % i, -9 // i, i.remainder(i[1])),
    "an index unravelled": lambda x, i: torch.unravel_index(i.abs(), (2, 5)),
    "views by overload": lambda x, i: [aten.view.default(x, [4, 3]), aten.select.int(x, 1, 2), aten.slice.Tensor(x, 1, 1, 3), aten.t.default(x), aten.permute.default(x, [1, 0]), aten.unsqueeze.default(i, 0), aten.squeeze.dim(x[:1], 0), aten.expand.default(i, [2, 3]), aten.transpose.int(x, 0, 1)],
    "lists by overload": lambda x, i: aten.split.Tensor(x, 2, 1),
}  # fmt: skip


@pytest.mark.native
@pytest.mark.parametrize("name", CALLS)
def test_in_one_graph(name):
    if name == "lists by overload":
        assert_same(cdynamo.optimize(CALLS[name])(X, I), CALLS[name](X, I))
        return
    fast = cdynamo.optimize(CALLS[name], fullgraph=True)
    for x, i in (X, I), (X + 1, I + 3):
        assert_same(fast(x, i), CALLS[name](x, i))


@pytest.mark.parametrize("name", CALLS)
def test_as_eager(name):
    assert outcome(cdynamo.optimize(CALLS[name]), X, I) == outcome(CALLS[name], X, I)


def test_a_view_by_overload_is_one():
    def f(x):
        y = torch.ops.aten.select.int(x, 0, 1)
        y.add_(1)
        return x, y

    assert outcome(cdynamo.optimize(f), X.clone()) == outcome(f, X.clone())
    x = X.clone()
    assert cdynamo.optimize(f)(x)[1].data_ptr() == x[1].data_ptr()


def test_gradients_of_views_by_overload():
    def f(x):
        return (torch.ops.aten.view.default(x, [4, 3]) * torch.ops.aten.t.default(x)).sum()

    x, y = (X.clone().requires_grad_() for _ in range(2))
    f(x).backward()
    cdynamo.optimize(f)(y).backward()
    torch.testing.assert_close(y.grad, x.grad)


@pytest.mark.parametrize("f", [lambda i, j: i % j, lambda i, j: i // j, lambda i, j: 7 // j, lambda i, j: 7 % j])
def test_a_quotient_by_zero_raises(f):
    fast = cdynamo.optimize(f)
    for j in torch.tensor([1, 2, 3]), torch.tensor([1, 0, 3]), torch.tensor([-1, 2, -3]):
        assert outcome(fast, I, j) == outcome(f, I, j)


def test_tests_of_types_by_alias():
    def f(x, d):
        kinds = typing.Mapping, typing.Sequence, typing.List, typing.Callable, typing.Iterable, typing.Tuple  # noqa: UP006
        return x * 2, [[isinstance(each, kind) for kind in kinds] for each in d], issubclass(dict, typing.Mapping)

    objects = [{}, torch.nn.ModuleDict(), [1], (1,), len, "a", 3, torch.Size([1])]
    assert outcome(cdynamo.optimize(f, fullgraph=True), X, objects) == outcome(f, X, objects)


WINDOW = torch.hann_window(16)


@pytest.mark.filterwarnings("ignore:A window was not provided", "ignore:.*istft")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"hop_length": 8},
        {"length": 50},
        {"length": 90},
        {"center": False},
        {"normalized": True},
        {"win_length": 12},
    ],
    ids=str,
)
def test_inverse_of_a_spectrogram(options):
    window = (
        torch.ones(options.get("win_length", 16))
        if options.get("center") is False or "win_length" in options
        else WINDOW
    )

    def f(x):
        forwards = {key: options[key] for key in options if key != "length"}
        spectrum = torch.stft(x, 16, window=window.to(x.dtype), return_complex=True, **forwards)
        return torch.istft(spectrum * 1.5, 16, window=window.to(x.dtype), **options)

    fast = cdynamo.optimize(f, fullgraph=True)
    for x in torch.randn(96), torch.randn(2, 96), torch.randn(96).double():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same(fast(x), f(x))
    x, y = (torch.linspace(-1, 1, 96).requires_grad_() for _ in range(2))
    f(x).pow(2).sum().backward()
    cdynamo.optimize(f)(y).pow(2).sum().backward()
    torch.testing.assert_close(y.grad, x.grad)


def test_a_window_that_does_not_overlap_is_refused():
    def f(spectrum):
        return torch.istft(spectrum, 16, window=torch.zeros(16))

    spectrum = torch.zeros(9, 5, dtype=torch.cfloat)
    assert outcome(cdynamo.optimize(f), spectrum) == outcome(f, spectrum)
