"""How results lie in memory: their strides are eager's and NumPy's, whatever the layout of what came in."""

from __future__ import annotations

import contextlib

import pytest

import cdynamo

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
F = torch.nn.functional

pytestmark = pytest.mark.native

LAST = torch.channels_last


def images(*sizes):
    return torch.linspace(-1, 1, 2 * torch.Size(sizes).numel())[::2].reshape(sizes)


LAYOUTS = {
    "row-major": lambda: images(2, 4, 4, 6),
    "channels-last": lambda: images(2, 4, 4, 6).to(memory_format=LAST),
    "permuted": lambda: images(4, 2, 6, 4).permute(1, 0, 3, 2),
    "transposed": lambda: images(6, 4, 4, 2).permute(3, 2, 1, 0),
    "sliced": lambda: images(4, 8, 4, 6)[::2, ::2],
    "channels-last, sliced": lambda: images(2, 4, 4, 12).to(memory_format=LAST)[:, :, 1:, ::2],
    "one channel": lambda: images(2, 1, 4, 6).to(memory_format=LAST),
    "one channel of several": lambda: images(2, 4, 4, 6).to(memory_format=LAST)[:, :1],
    "one place": lambda: images(2, 4, 1, 1).to(memory_format=LAST),
    "one column": lambda: images(2, 4, 4, 1).to(memory_format=LAST),
    "one image": lambda: images(1, 4, 4, 6).to(memory_format=LAST),
    "one of all": lambda: images(1, 1, 1, 1).to(memory_format=LAST),
    "expanded": lambda: images(2, 1, 4, 6).expand(2, 4, 4, 6),
}

OPERATORS = {
    "roll": lambda x: (x.roll(1, 0), x.roll((1, 1), (0, 1)), x.roll((0, 2), (2, 3)), x.roll(3)),
    "pad": lambda x: (F.pad(x, (1, 2)), F.pad(x, (-1, 1)), F.pad(x, (0, 0)), F.pad(x, (0, 0, 0, 0, 1, 0))),
    "cut": lambda x: F.pad(x, (0, 0, 0, -1)),
    "pad by what is there": lambda x: [
        F.pad(x, (1, 1, 1, 1), mode="replicate"),
        F.pad(x, (0, 0, 0, 0), mode="replicate"),
        F.pad(x, (1, 1, 1, 1), mode="circular"),
        F.pad(x[0], (1, 1), mode="replicate"),
    ],
    "reflect": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "cat": lambda x: [
        torch.cat([x, x * 2], -1),
        torch.cat([x, x.contiguous()]),
        torch.cat([x, x.double()]),
        torch.cat([torch.empty(0), x]),
        torch.cat([x[:0], x]),
        torch.cat(x.split(1, 1), 1),
    ],
    "stack": lambda x: [torch.stack([x, x * 2], dim) for dim in (0, 1, 2, -1)] + [torch.stack([x])],
    "stack of images": lambda x: [torch.stack([x[0], x[0]], dim) for dim in (0, 1, -1)],
    "hstack": lambda x: [torch.hstack([x, x]), torch.vstack([x, x]), torch.dstack([x, x])],
    "column_stack": lambda x: torch.column_stack([x, x]),
    "clamped": lambda x: (F.relu6(x), F.hardtanh(x), x.clamp(0, 6), F.relu(x)),
    "prelu": lambda x: (F.prelu(x, torch.tensor([0.2])), F.prelu(x, torch.ones(x.shape[1]))),
    "nan_to_num": lambda x: x.nan_to_num(),
    "group_norm": lambda x: F.group_norm(x, 1),
    "instance_norm": lambda x: F.instance_norm(x),
    "rms_norm": lambda x: (F.rms_norm(x, x.shape[-1:]), F.rms_norm(x, x.shape[1:], torch.ones(x.shape[1:]))),
    "losses": lambda x: [
        f(a, b, reduction="none")
        for f in (F.huber_loss, F.mse_loss, F.smooth_l1_loss, F.l1_loss)
        for a, b in ((x, x * 2), (x, x.contiguous()), (x.contiguous(), x), (x[:1], x))
    ],
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(x.sigmoid(), x.contiguous().sigmoid(), reduction="none"),
    "parts replaced": lambda x: [
        y.sum(0)
        for y in (
            x.select_scatter(x[0], 0, 0),
            x.slice_scatter(x[:1], 0, 0, 1),
            x.diagonal_scatter(x.diagonal() * 2),
        )
    ],
    "copies with gaps": lambda x: (x.select_scatter(x[0], 0, 0), x.slice_scatter(x[:1], 0, 0, 1)),
    "interpolate": lambda x: [F.interpolate(x, scale_factor=2, mode=mode) for mode in ("nearest", "bilinear")],
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "conv2d": lambda x: F.conv2d(x, torch.ones(3, x.shape[1], 1, 1).to(memory_format=LAST)),
    "to": lambda x: (x.to(memory_format=LAST), x.to(memory_format=torch.contiguous_format)),
    "conversions": lambda x: (x.float(memory_format=LAST), x.double(memory_format=torch.contiguous_format)),
    "contiguous": lambda x: (x.contiguous(), x.contiguous(memory_format=LAST), x.clone(memory_format=LAST)),
    "flat copies": lambda x: torch.as_strided(torch.roll(x, -1, 0), (x.numel(),), (1,), 0),
}


def outcome(f, x):
    try:
        results = f(x)
    except (RuntimeError, ValueError) as error:
        return type(error)
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    return [(r is x, r.shape, r.stride(), r.dtype, r.requires_grad) for r in results], results


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("mode", ["plain", "grad", "no_grad"])
@pytest.mark.parametrize("name", OPERATORS)
def test_strides_of_results(name, mode):
    f = OPERATORS[name]
    for make in LAYOUTS.values():
        cdynamo.reset()
        with torch.no_grad() if mode == "no_grad" else contextlib.nullcontext():
            x, y = make().requires_grad_(mode != "plain"), make().requires_grad_(mode != "plain")
            expected, got = outcome(f, x), outcome(cdynamo.optimize(f), y)
        if isinstance(expected, type):
            assert got == expected
            continue
        assert got[0] == expected[0]
        for a, b in zip(got[1], expected[1], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


MATRICES = {
    "A": lambda: torch.linspace(0.1, 0.9, 24).reshape(4, 6),
    "B": lambda: torch.linspace(0.1, 0.9, 24).reshape(6, 4).t(),
    "gaps": lambda: torch.linspace(0.1, 0.9, 96).reshape(8, 12)[::2, ::2],
    "column": lambda: torch.linspace(0.1, 0.9, 4).reshape(4, 1).expand(4, 6),
}


@pytest.mark.parametrize(
    "loss",
    [F.soft_margin_loss, F.huber_loss, F.mse_loss, F.smooth_l1_loss, F.binary_cross_entropy, F.l1_loss],
)
def test_losses_of_two_layouts(loss):
    for a in MATRICES.values():
        for b in MATRICES.values():
            cdynamo.reset()
            expected = loss(a(), b(), reduction="none")
            got = cdynamo.optimize(lambda x, y: loss(x, y, reduction="none"))(a(), b())
            assert got.stride() == expected.stride()
            torch.testing.assert_close(got, expected)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: torch.tensor([v.item()]),
        lambda v: torch.tensor([[v.item()]]),
        lambda v: torch.tensor([v[0]]),
        lambda v: torch.tensor([v[0], v[0]]),
        lambda v: torch.tensor([v.item()], dtype=torch.float64),
    ],
)
def test_a_tensor_of_a_number_of_the_graph_is_row_major(f):
    v = torch.tensor([1.5])
    got, expected = cdynamo.optimize(f)(v), f(v)
    assert got.stride() == expected.stride() and torch.equal(got, expected)


VOLUMES = {
    "row-major": lambda: images(2, 3, 4, 5, 6),
    "channels-last": lambda: images(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d),
    "one channel": lambda: images(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d)[:, :1],
}


@pytest.mark.parametrize("layout", VOLUMES)
def test_strides_of_volumes(layout):
    def f(x):
        padded = [F.pad(x, (1, 1, 1, 1, 1, 1), mode=m) for m in ("replicate", "reflect", "circular")]
        return (*padded, F.pad(x, (1, 1)), torch.stack([x, x]), torch.cat([x, x], 1), x.roll(1, 2))

    x = VOLUMES[layout]()
    for got, expected in zip(cdynamo.optimize(f)(x), f(x), strict=True):
        assert got.stride() == expected.stride()
        torch.testing.assert_close(got, expected)


def test_sizes_that_change():
    def f(x):
        return torch.cat([x, x]), torch.stack([x, x], 1), x.roll(1, 2), F.pad(x, (1, 1)), F.relu6(x)

    compiled = cdynamo.optimize(f, dynamic=True)
    for sizes in ((2, 4, 5, 6), (3, 5, 4, 7), (2, 4, 8, 9)):
        for make in (lambda x: x, lambda x: x.to(memory_format=LAST)):
            x = make(images(*sizes))
            for got, expected in zip(compiled(x), f(x), strict=True):
                assert got.stride() == expected.stride()
                torch.testing.assert_close(got, expected)


# Dims of one place, or none, leave a choice of strides, which operators make in two ways.
FEW = {
    "nothing": lambda dtype: torch.empty(0, 15, dtype=dtype).T,
    "column": lambda dtype: torch.ones(1, 4, dtype=dtype).T,
    "row": lambda dtype: torch.ones(4, 1, dtype=dtype).T,
    "permuted": lambda dtype: torch.ones(1, 3, 2, dtype=dtype).permute(1, 2, 0),
    "nothing, permuted": lambda dtype: torch.empty(2, 0, 3, dtype=dtype).permute(2, 0, 1),
    "one": lambda dtype: torch.empty_strided((1, 1), (7, 5), dtype=dtype).zero_(),
}
REAL_OPERATORS = {
    "isinf": torch.isinf,
    "isfinite": torch.isfinite,
    "deg2rad": torch.deg2rad,
    "rad2deg": torch.rad2deg,
    "abs": torch.abs,
    "add": lambda x: x + 1,
    "logits": lambda x: F.binary_cross_entropy_with_logits(x.clone().contiguous(), x, reduction="none"),
}
COMPLEX_OPERATORS = {
    "isinf": torch.isinf,
    "abs": torch.abs,
    "angle": torch.angle,
    "reciprocal": torch.reciprocal,
    "conj_physical": torch.conj_physical,
    "add": lambda x: x + 1,
    "div": lambda x: x / 2,
    "eq": lambda x: x == 1,
    "where": lambda x: torch.where(x == 0, x, x + 1),
}
CHOOSING = [
    (name, operator, dtype)
    for operators, dtypes in (
        (REAL_OPERATORS, [torch.float32, torch.int64]),
        (COMPLEX_OPERATORS, [torch.complex64]),
    )
    for name, operator in operators.items()
    for dtype in dtypes
    if not (name == "logits" and dtype is torch.int64)
]


@pytest.mark.parametrize(("name", "operator", "dtype"), CHOOSING)
def test_strides_where_dims_leave_a_choice(name, operator, dtype):
    def f(x):
        y = operator(x)
        return y, y.stride()

    for make in FEW.values():
        cdynamo.reset()
        x = make(dtype)
        (got, inside), (expected, _) = cdynamo.optimize(f)(x), f(x)
        assert got.stride() == inside == expected.stride() and got.dtype == expected.dtype


def test_polar_coordinates_of_another_order():
    size, angle = images(2, 5, 1, 3).permute(0, 3, 2, 1), images(2, 3, 3, 5)
    for f in (torch.polar, torch.complex):
        got, expected = cdynamo.optimize(f)(size.abs(), angle), f(size.abs(), angle)
        assert got.stride() == expected.stride()
        torch.testing.assert_close(got, expected)


FLATTENERS = {
    "ravel": lambda x: x.ravel(),
    "flatten": lambda x: x.flatten(),
    "reshape": lambda x: x.reshape(-1),
    "view": lambda x: x.contiguous().view(-1),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("flatten", FLATTENERS)
def test_what_has_few_elements_keeps_its_strides_when_flattened(flatten, dynamic):
    for size, stride in [
        ((0,), (33,)),
        ((1,), (7,)),
        ((1, 1), (7, 5)),
        ((1, 1, 1), (3, 7, 5)),
        ((0, 4), (7, 5)),
        ((3, 1), (1, 5)),
        ((1, 3), (1, 2)),
        ((3,), (2,)),
        ((), ()),
    ]:

        def f(x):
            y = FLATTENERS[flatten](x)
            return y, y.stride()

        x = torch.empty_strided(size, stride).zero_()
        (got, inside), (expected, _) = cdynamo.optimize(f, dynamic=dynamic)(x), f(x)
        assert got.stride() == inside == expected.stride()
        assert (got.data_ptr() == x.data_ptr()) == (expected.data_ptr() == x.data_ptr())


ARRAYS = {
    "row-major": lambda a: a,
    "column-major": np.asfortranarray,
    "permuted": lambda a: a.transpose(1, 0, 2),
    "rotated": lambda a: a.transpose(2, 0, 1),
    "sliced": lambda a: a[::2, :, ::2],
    "backwards": lambda a: a[::-1],
    "one": lambda a: np.asfortranarray(a)[:, :1],
    "matrix": lambda a: np.asfortranarray(a[0]),
}


def reductions(axis, keepdims):
    return {
        "sum": lambda a: a.sum(axis, keepdims=keepdims),
        "mean": lambda a: np.mean(a, axis, keepdims=keepdims),
        "max": lambda a: np.max(a, axis, keepdims=keepdims),
        "var": lambda a: np.var(a, axis, keepdims=keepdims),
        "ptp": lambda a: np.ptp(a, axis, keepdims=keepdims),
        "norm": lambda a: np.linalg.norm(a, axis=axis, keepdims=keepdims),
    }


@pytest.mark.parametrize("layout", ARRAYS)
def test_strides_of_arrays(layout):
    a = ARRAYS[layout](np.linspace(-1, 1, 60).reshape(4, 3, 5))
    functions = [f for axis in (0, 1, -1) for k in (True, False) for f in reductions(axis, k).values()]
    functions += [lambda a, axis=axis: np.take_along_axis(a, np.argsort(a, axis), axis) for axis in (0, 1, -1)]
    functions.append(lambda a: np.take_along_axis(a, np.zeros_like(a, dtype=np.int64), 0))
    for f in functions:
        cdynamo.reset()
        got, expected = cdynamo.optimize(f)(a), f(a)
        assert got.strides == expected.strides and got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected)
