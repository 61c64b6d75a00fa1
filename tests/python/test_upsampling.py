"""torch.nn.functional.interpolate: values, gradients, layouts and the places of NaN, as eager has them."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import cdynamo  # noqa: E402

SHAPES = {"linear": (2, 3, 7), "bilinear": (2, 3, 5, 7), "trilinear": (1, 2, 3, 4, 5)}
NATIVE = [
    ("linear", {"scale_factor": 2}),
    ("linear", {"scale_factor": 9}),
    ("linear", {"size": 21}),
    ("bilinear", {"scale_factor": 2}),
    ("bilinear", {"scale_factor": (1, 3)}),
    ("bilinear", {"size": (20, 7)}),
    ("bilinear", {"scale_factor": 2, "recompute_scale_factor": True}),
    ("trilinear", {"scale_factor": 2}),
]
BY_THE_LIBRARY = [
    ("linear", {"size": 12}),
    ("bilinear", {"scale_factor": 1.5}),
    ("bilinear", {"scale_factor": 2, "align_corners": True}),
    ("bicubic", {"scale_factor": 2}),
]


def compiled(mode, options):
    def program(x):
        return F.interpolate(x, mode=mode, **options) * 1

    return program, cdynamo.optimize(program, fullgraph=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("mode, options", NATIVE + BY_THE_LIBRARY)
def test_values_and_gradients(mode, options, dtype):
    program, fast = compiled(mode, options)
    torch.manual_seed(0)
    x = torch.randn(SHAPES.get(mode, (2, 3, 5, 7)), dtype=dtype)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    expected, got = program(a), fast(b)
    # Eager rounds weights to bfloat16 too.
    close = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(got, expected, **close)
    assert got.stride() == expected.stride()
    weight = torch.randn_like(expected)
    (expected * weight).sum().backward()
    (got * weight).sum().backward()
    torch.testing.assert_close(b.grad, a.grad, **close)


@pytest.mark.native
def test_whole_factors_are_kernels():
    for mode, options in NATIVE:
        before = cdynamo.counters()["library_calls_compiled"]
        compiled(mode, options)[1](torch.randn(SHAPES[mode]))
        assert cdynamo.counters()["library_calls_compiled"] == before


@pytest.mark.parametrize("times", [2, 3, 5])
def test_places_are_eager_s_far_from_the_start(times):
    program, fast = compiled("bilinear", {"scale_factor": (1, times)})
    x = torch.randn(1, 1, 2, 1000)
    torch.testing.assert_close(fast(x), program(x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("times", [2, 3, 4])
def test_what_is_not_finite_reaches_the_same_points(times):
    program, fast = compiled("linear", {"scale_factor": times})
    x = torch.tensor([float("inf"), 1, float("nan"), 2, 3, -float("inf")])[None, None]
    torch.testing.assert_close(fast(x), program(x), equal_nan=True)


def test_one_pixel_and_channels_last():
    program, fast = compiled("bilinear", {"scale_factor": 2})
    for x in (torch.randn(1, 2, 1, 1), torch.randn(2, 8, 3, 4).to(memory_format=torch.channels_last)):
        torch.testing.assert_close(fast(x), program(x))
        assert fast(x).stride() == program(x).stride()


def test_autocast():
    program, fast = compiled("bilinear", {"scale_factor": 2})
    for dtype in (torch.bfloat16, torch.float32):
        x = torch.randn(1, 2, 4, 4, dtype=dtype)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.testing.assert_close(fast(x), program(x))


def test_no_pixels():
    program, _ = compiled("linear", {"scale_factor": 2})
    fast = cdynamo.optimize(program)
    for call in (program, fast):
        with pytest.raises(RuntimeError, match="should be greater than 0"):
            call(torch.randn(1, 2, 0))
