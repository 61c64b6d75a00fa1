"""view(dtype): the same memory as elements of another dtype, read, written and returned, torch and NumPy."""

import numpy as np
import pytest

import cdynamo

PAIRS = [
    ("float32", "int32"),
    ("float32", "uint32"),
    ("int32", "float32"),
    ("float64", "int64"),
    ("float64", "uint64"),
    ("int64", "float64"),
    ("int64", "uint64"),
    ("uint8", "int8"),
    ("int16", "uint16"),
    ("bool", "uint8"),
    ("bool", "int8"),
]


def data(dtype):
    values = np.array([0.0, -0.0, 1.5, -2.25, 3e30, -1e-30, 7.0, 126.0])
    if dtype == "bool":
        return values > 1
    if np.issubdtype(dtype, np.floating):
        return values.astype(dtype)
    info = np.iinfo(dtype)
    return np.array([0, 1, info.max, info.min, 5, info.max // 3, 77, 100], dtype)


def compiled(function):
    return cdynamo.optimize(function, fullgraph=True)


@pytest.mark.parametrize("source, target", PAIRS)
def test_numpy_bits(source, target):
    def bits(x):
        return x.copy().view(target), np.flip(x).view(target)

    for want, got in zip(bits(data(source)), compiled(bits)(data(source))):
        assert got.dtype == want.dtype
        assert got.tobytes() == want.tobytes()


def test_fast_inverse_square_root():
    def inverse_root(x):
        i = x.view(np.int32)
        i = np.int32(0x5F3759DF) - (i >> 1)
        y = i.view(np.float32)
        return y * (np.float32(1.5) - np.float32(0.5) * x * y * y)

    x = np.linspace(0.1, 9, 33, dtype=np.float32)
    np.testing.assert_array_equal(compiled(inverse_root)(x), inverse_root(x))


def test_numpy_writes_go_through():
    def f(x):
        bits = x.view(np.int64)
        bits[1:3] = 0
        y = x * 2
        y.view(np.uint64)[0] = 1
        x[4] = 1.0
        return bits[4] + 1, y

    want_x, got_x = data("float64"), data("float64")
    want, got = f(want_x), compiled(f)(got_x)
    np.testing.assert_array_equal(got_x, want_x)
    assert got[0] == want[0]
    np.testing.assert_array_equal(got[1], want[1])


def test_numpy_results_share_memory():
    def f(x):
        y = x + 1
        return x.view(np.int64)[2:], y, y[::2].view(np.uint64)

    x = data("float64")
    of_x, y, of_y = compiled(f)(x)
    np.testing.assert_array_equal(of_x, x.view(np.int64)[2:])
    np.testing.assert_array_equal(of_y, y[::2].view(np.uint64))
    of_x[0], of_y[1] = 0, 0
    assert x[2] == 0 and y[2] == 0


@pytest.mark.parametrize("target", ["int8", "uint16", "int32", "float32", "float64", "uint64"])
@pytest.mark.parametrize("source", ["bool", "uint8", "int16", "float32", "int64"])
def test_numpy_any_width(source, target):
    def f(x):
        view = x.view(target)
        return x.copy().view(target), view, view[:, 1:], view[::-1]

    x = np.arange(96).reshape(3, 32).astype(source)
    for want, got in zip(f(x), compiled(f)(x)):
        assert got.dtype == want.dtype and got.strides == want.strides
        assert got.tobytes() == want.tobytes()
    got[:] = 0
    assert not x.any()


def test_numpy_widths_of_odd_strides():
    def f(x):
        return x[:, :2].view(np.int16) + 1, x[:, :1].view(np.uint8), x[:, 1:3].view(np.int16) * 2

    x = np.arange(15, dtype=np.int8).reshape(3, 5)  # rows of five bytes: NumPy does not mind
    for want, got in zip(f(x), cdynamo.optimize(f)(x)):
        np.testing.assert_array_equal(got, want)


def test_numpy_refuses_other_widths():
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    for view in (lambda x: x.view(np.float64), lambda x: x.T.view(np.int8), lambda x: x[:, ::2].view(np.int64)):
        with pytest.raises(ValueError) as want:
            view(x)
        with pytest.raises(ValueError) as got:
            cdynamo.optimize(view)(x)
        assert str(got.value) == str(want.value)


@pytest.mark.parametrize("source, target", PAIRS)
def test_torch_bits(source, target):
    torch = pytest.importorskip("torch")
    wanted = getattr(torch, target)

    def bits(x):
        return x.clone().view(wanted), x.flip(0).view(wanted)

    x = torch.from_numpy(data(source))
    for want, got in zip(bits(x), compiled(bits)(x)):
        assert got.dtype is want.dtype and got.stride() == want.stride()
        assert torch.equal(got.view(torch.uint8), want.view(torch.uint8))


def test_torch_writes_go_through():
    torch = pytest.importorskip("torch")

    def f(x):
        x.view(torch.int32)[1:3].zero_()
        y = x * 2
        sign = y.view(torch.int32) >> 31
        y.view(torch.int32).bitwise_and_(0x7FFFFFFF)
        return y, sign

    want_x, got_x = (torch.from_numpy(data("float32")) for _ in range(2))
    want, got = f(want_x), compiled(f)(got_x)
    assert torch.equal(got_x, want_x)
    for left, right in zip(want, got):
        assert torch.equal(left, right)


def test_torch_results_share_memory():
    torch = pytest.importorskip("torch")

    def f(x):
        y = x + 1
        return x.view(torch.int64).reshape(2, 4)[1], y, y.view(torch.int64)[3:], x.detach().view(torch.int64)

    x = torch.from_numpy(data("float64"))
    of_x, y, of_y, whole = compiled(f)(x)
    for want, got in zip(f(x), (of_x, y, of_y, whole)):
        assert torch.equal(got, want) and got.stride() == want.stride()
    of_x[0], of_y[1], whole[7] = 0, 0, 0
    assert x[4] == 0 and y[4] == 0 and x[7] == 0
    assert of_x._version == x._version


def test_torch_sizes_that_change():
    torch = pytest.importorskip("torch")

    @compiled
    def exponent(x):
        return ((x.view(torch.int32) >> 23) & 255) - 127

    for n in (3, 8, 17, 64):
        x = torch.linspace(0.1, 40, n)
        assert torch.equal(exponent(x), torch.frexp(x).exponent - 1)


def test_what_has_a_gradient_is_left_to_torch():
    torch = pytest.importorskip("torch")

    def f(x, w):
        noise = torch.full_like(x, 3).detach().view(torch.int32) & 255
        return (x * w).sum() + noise.sum()

    def g(x):
        return (x * 2).view(torch.int32) + 1

    x, w = torch.ones(4, requires_grad=True), torch.ones(4)
    compiled(f)(x, w).backward()
    assert torch.equal(x.grad, w)
    assert torch.equal(cdynamo.optimize(g)(x), g(x))


def test_bools_through_their_bits():
    torch = pytest.importorskip("torch")

    def f(mask):
        mask.view(torch.uint8)[0] = 0
        return mask.view(torch.uint8).sum(), mask & True

    want, got = (torch.tensor([True, True, False]) for _ in range(2))
    for left, right in zip(f(want), cdynamo.optimize(f)(got)):
        assert torch.equal(left, right)
    assert torch.equal(want, got)


DTYPES = """bool uint8 int8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64""".split()
HALF = ["float16", "bfloat16"]


def bytes_as(torch, source):
    """(3, n) elements of any bits; of floats those that are numbers, whose bits a conversion keeps."""
    data = torch.randint(0, 255, (3, 128), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    if source == "bool":
        return data[:, :16] > 100
    x = data.view(getattr(torch, source))
    return torch.nan_to_num(x) if x.is_floating_point() else x


def same_bits(torch, want, got):
    return torch.equal(want.contiguous().view(torch.uint8), got.contiguous().view(torch.uint8))


@pytest.mark.parametrize("target", DTYPES[1:])
@pytest.mark.parametrize("source", DTYPES)
def test_torch_any_width(source, target):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, target)

    def f(x):
        view = x.view(dtype)
        return x.clone().view(dtype), view, view[:, 1:]

    x = bytes_as(torch, source)
    function = cdynamo.optimize(f, fullgraph=source == target or not {source, target} & set(HALF))
    for want, got in zip(f(x), function(x)):
        assert got.dtype is want.dtype and got.stride() == want.stride()
        assert got.storage_offset() == want.storage_offset()
        assert same_bits(torch, want, got)
    view = function(x)[1]
    view.zero_()
    assert not x.any()


@pytest.mark.parametrize("dtype", HALF)
def test_all_bits_of_half_types(dtype):
    """NaNs keep their digits, also where the graph has to leave a view to PyTorch."""
    torch = pytest.importorskip("torch")

    def read(x):
        return x.view(torch.int16) + 0, x[::2].clone().view(torch.uint8)

    def write(x):
        bits = x.view(torch.int16)
        bits[::2] ^= 1
        return bits.view(x.dtype), bits + 0

    def moved(bits):
        halves = bits.view(getattr(torch, dtype))
        return halves.view(torch.int16) * 2, halves[:5]

    bits = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    for function in (read, write, moved):
        given = [bits.clone() if function is moved else bits.clone().view(getattr(torch, dtype)) for _ in range(2)]
        for want, got in zip(function(given[0]), cdynamo.optimize(function)(given[1])):
            assert torch.equal(got.view(torch.int16), want.view(torch.int16))
        assert torch.equal(given[0].view(torch.int16), given[1].view(torch.int16))


@pytest.mark.parametrize("source, target", [("float32", "int16"), ("int16", "float64"), ("float16", "uint8")])
def test_writes_of_other_widths(source, target):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, target)

    def f(x):
        x.view(dtype)[:, 1:3] = 0
        y = x.clone()
        y.view(dtype)[1].fill_(1)
        x[2] = 0
        return y, y.view(dtype)[:, ::2] * 2, x.view(torch.int8)[1]

    want_x, got_x = bytes_as(torch, source), bytes_as(torch, source)
    for want, got in zip(f(want_x), cdynamo.optimize(f, fullgraph=source not in HALF)(got_x)):
        assert same_bits(torch, want, got)
    assert same_bits(torch, want_x, got_x)


def test_widths_of_sizes_that_change():
    torch = pytest.importorskip("torch")

    @compiled
    def pack(x):
        packed = (x[..., ::2] | (x[..., 1::2] << 4)).view(torch.int32)
        return packed, packed.view(torch.uint8) & 15

    for n in (8, 16, 40, 64):
        x = torch.arange(3 * n, dtype=torch.uint8).reshape(3, n) & 15
        packed, low = pack(x)
        assert torch.equal(packed, (x[..., ::2] | (x[..., 1::2] << 4)).view(torch.int32))
        assert torch.equal(low, x[..., ::2])


@pytest.mark.parametrize(
    "view",
    [
        lambda torch, x: x.view(torch.float64),
        lambda torch, x: x[0, 0].view(torch.int8),
        lambda torch, x: x.T.view(torch.int8),
        lambda torch, x: x[:, ::2].view(torch.int64),
        lambda torch, x: x[:, 1:3].view(torch.int64),
    ],
    ids=["odd size", "no dim", "not contiguous", "steps", "strides"],
)
def test_torch_refuses_other_widths(view):
    torch = pytest.importorskip("torch")
    x = torch.arange(15, dtype=torch.float32).reshape(3, 5)
    with pytest.raises(RuntimeError) as want:
        view(torch, x)
    with pytest.raises(RuntimeError) as got:
        cdynamo.optimize(view)(torch, x)
    assert str(got.value) == str(want.value)


def test_a_complex_view_is_torchs():
    torch = pytest.importorskip("torch")

    def f(x):
        return (x + 1).view(torch.complex64).clone()

    x = torch.arange(8, dtype=torch.float32)
    assert torch.equal(cdynamo.optimize(f)(x), f(x))


@pytest.mark.native
def test_vmap():
    torch = pytest.importorskip("torch")

    def f(x):
        return torch.vmap(lambda row: row.view(torch.int32) >> 23)(x)

    x = torch.linspace(0.1, 5, 12).reshape(3, 4)
    try:
        expected = f(x)
    except RuntimeError as error:  # torch 2.11 has no batching rule
        assert "Batching rule not implemented" in str(error)
        expected = x.view(torch.int32) >> 23
    assert torch.equal(compiled(f)(x), expected)


def test_a_view_of_its_own_dtype_has_no_history():
    torch = pytest.importorskip("torch")

    def f(x):
        y = x * 2
        return y.view(y.dtype), y

    x = torch.ones(3, requires_grad=True)
    for want, got in zip(f(x), cdynamo.optimize(f)(x)):
        assert got.requires_grad == want.requires_grad and torch.equal(got, want)


@pytest.mark.parametrize("sizes", [(0, 3), (2, 0, 4), (0,)])
def test_bits_of_nothing(sizes):
    torch = pytest.importorskip("torch")

    def f(x):
        return x.int().view(torch.int16), x.view(torch.int64), x.view(torch.uint8)

    x = torch.ones(sizes, dtype=torch.float64)
    for want, got in zip(f(x), compiled(f)(x)):
        assert got.shape == want.shape and got.dtype == want.dtype


def test_what_begins_elsewhere_in_its_storage_has_no_wider_elements():
    torch = pytest.importorskip("torch")

    def f(x):
        return x.view(torch.int64) * 2

    def run(f, x):
        try:
            return f(x).tolist()
        except RuntimeError as error:
            return str(error)

    memory = torch.arange(20, dtype=torch.int32)
    compiled = cdynamo.optimize(f)
    for begin in (0, 2, 1, 3, 4):
        assert run(compiled, memory[begin : begin + 2]) == run(f, memory[begin : begin + 2])
