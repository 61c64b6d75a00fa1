"""uint16, uint32 and uint64 against plain NumPy: every ufunc over pairs of dtypes and edge values, reductions, conversions,
scalars, writes in place, and the programs that are made of them."""

from __future__ import annotations

import copy
import operator
import os

import pytest

np = pytest.importorskip("numpy")

import cdynamo  # noqa: E402

WIDE = ["uint16", "uint32", "uint64"]
INTEGERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
DTYPES = ["bool", *INTEGERS, "float16", "float32", "float64"]


def edges(dtype):
    if dtype == "bool":
        return np.array([False, True])
    if dtype.startswith("float"):
        return np.array([0, 1, -1, 2.5, -3.75, 100, 1000.5, 2048], dtype)
    info = np.iinfo(dtype)
    half = (info.max >> 1) + 1
    numbers = [0, 1, 2, 3, 7, 100, half - 1, half, info.max - 1, info.max, info.min, info.min + 1, info.min // 2]
    return np.array(sorted(set(numbers)), dtype)


def outcome(function, *args):
    with np.errstate(all="ignore"):
        try:
            return "result", function(*args)
        except Exception as error:
            return type(error).__name__, str(error)


def assert_same(got, expected, where=""):
    assert type(got) is type(expected), (where, got, expected)
    if isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for i, (one, other) in enumerate(zip(got, expected)):
            assert_same(one, other, f"{where}[{i}]")
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), where
        if expected.dtype.kind in "fc":
            rtol = {2: 2e-3, 4: 2e-6, 8: 1e-12}.get(expected.dtype.itemsize, 1e-12)
            np.testing.assert_allclose(got, expected, rtol=rtol, err_msg=where)
        else:
            np.testing.assert_array_equal(got, expected, err_msg=where)
        if isinstance(expected, np.ndarray) and expected.size > 1:
            assert got.strides == expected.strides, where
    else:
        assert got == expected, where


# A backend in Python has no numbers that the graph reads.
NATIVE = os.environ.get("CDYNAMO_TEST_BACKEND", "native") == "native"


def check(function, *args, breaks=0, times=2):
    """The function's results, exceptions and what it leaves in its arguments; `breaks`: None for any number of them."""
    compiled = cdynamo.optimize(function)
    before = cdynamo.counters()
    for _ in range(times):
        plain_args, compiled_args = copy.deepcopy(args), copy.deepcopy(args)
        expected, got = outcome(function, *plain_args), outcome(compiled, *compiled_args)
        assert_same(got, expected)
        assert_same(list(compiled_args), list(plain_args), "arguments")
    after = cdynamo.counters()
    if breaks is not None and NATIVE:
        assert after["graph_breaks"] - before["graph_breaks"] == breaks
        assert after["graphs_compiled"] > before["graphs_compiled"]


def takes(ufunc, *args):
    return outcome(ufunc, *args)[0] == "result"


UNARY = (
    "negative positive invert absolute square sign sqrt cbrt exp log sin tanh isnan isinf isfinite logical_not reciprocal "
    "floor ceil trunc rint conjugate bitwise_count spacing deg2rad fabs signbit frexp modf"
)
BINARY = (
    "add subtract multiply true_divide floor_divide remainder fmod power minimum maximum fmin fmax bitwise_and bitwise_or "
    "bitwise_xor left_shift right_shift equal not_equal less less_equal greater greater_equal logical_and logical_or "
    "logical_xor gcd lcm arctan2 hypot copysign divmod float_power logaddexp heaviside nextafter"
)
UNARY, BINARY = ([name for name in names.split() if hasattr(np, name)] for names in (UNARY, BINARY))


@pytest.mark.parametrize("name", UNARY)
def test_ufuncs_of_one_array(name):
    ufunc = getattr(np, name)
    arrays = [edges(dtype) for dtype in WIDE if takes(ufunc, edges(dtype))]
    check(lambda arrays: [ufunc(x) for x in arrays], arrays)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("name", BINARY)
def test_ufuncs_of_pairs(name, dtype):
    ufunc = getattr(np, name)
    pairs = []
    for other in DTYPES:
        x, y = edges(dtype)[:, None], edges(other)[None]
        pairs += [pair for pair in ((x, y), (y, x)) if takes(ufunc, *pair)]
    check(lambda pairs: [ufunc(x, y) for x, y in pairs], pairs)


@pytest.mark.parametrize("dtype", WIDE)
def test_pairs_that_numpy_refuses(dtype):
    for name in BINARY:
        ufunc = getattr(np, name)
        for other in ("int8", "int64", "float32"):
            if not takes(ufunc, edges(dtype)[:, None], edges(other)):
                check(lambda x, y, ufunc=ufunc: ufunc(x, y), edges(dtype)[:, None], edges(other), breaks=None)


@pytest.mark.parametrize("dtype", WIDE)
def test_conversions(dtype):
    x = edges(dtype)
    check(lambda x: [x.astype(other) for other in DTYPES], x)
    for other in DTYPES:
        y = edges(other)
        y = y[y >= 0] if other.startswith("float") else y
        check(lambda y: (y.astype(dtype), y.astype(dtype) + 1), y)
    large = np.array([0, 0.5, 65535.9, 2.0**15, 2.0**16 - 1])
    if dtype != "uint16":
        large = np.append(large, [2.0**31, 2.0**32 - 1, 2.0**32 - 0.5])
    if dtype == "uint64":
        large = np.append(large, [2.0**53, 2.0**63, 2.0**63 - 1024, 2.0**64 - 2048])
    check(lambda y: y.astype(dtype), large)
    check(lambda y: y.astype(dtype), large[:5].astype("float32"))


REDUCTIONS = {
    "sum": lambda x: (x.sum(), x.sum(0), np.sum(x, axis=1, keepdims=True), x.sum(dtype="uint32")),
    "prod": lambda x: (x.prod(), np.prod(x, 0), np.prod(x, axis=1)),
    "running": lambda x: (x.cumsum(), x.cumsum(1), np.cumprod(x, 0)),
    "moments": lambda x: (x.mean(), x.mean(0), x.std(), x.var(1)),
    "extremes": lambda x: (x.max(), x.min(0), np.ptp(x), np.ptp(x, axis=1)),
    "places": lambda x: (x.argmax(), x.argmin(0), np.argmax(x, axis=1)),
    "truth": lambda x: (x.any(), x.all(0), np.count_nonzero(x), np.count_nonzero(x, axis=0)),
    "order": lambda x: (np.sort(x), np.sort(x, axis=0), np.argsort(x, axis=1, kind="stable")),
    "quantiles": lambda x: (np.median(x), np.percentile(x, 30), np.average(x, axis=0)),
    "of_ufuncs": lambda x: (
        np.add.reduce(x),
        np.bitwise_xor.reduce(x, axis=1),
        np.maximum.reduce(x),
        np.minimum.accumulate(x),
    ),
    "products": lambda x: (x @ x.T, np.dot(x[0], x[1]), np.outer(x[0], x[1]), np.trace(x), np.inner(x, x)),
    "products of several": lambda x: (np.einsum("ij,kj->ik", x, x), np.tensordot(x, x.T, 1), np.convolve(x[0], x[1])),
    "differences": lambda x: (np.diff(x), np.diff(x, axis=0), np.ediff1d(x[0])),
    "nan": lambda x: (np.nansum(x), np.nanmax(x), np.nanmean(x), np.isnan(x)),
    "bounds": lambda x: (np.clip(x, 2, 100), x.clip(3), np.minimum(x, 7), np.where(x > 5, x, 0)),
    "sets": lambda x: (np.unique(x), np.isin(x, x[0]), np.searchsorted(np.sort(x[0]), x[1])),
    "shapes": lambda x: (
        np.concatenate([x, x]),
        np.stack([x, x]),
        np.roll(x, 1),
        np.pad(x, 1),
        np.tile(x, 2),
        x[::-1, ::2],
    ),
    "made": lambda x: (
        np.zeros_like(x),
        np.full_like(x, 3),
        np.ones(3, x.dtype),
        np.arange(5, dtype=x.dtype),
        np.eye(2, dtype=x.dtype),
    ),
    "indices": lambda x: (np.arange(9)[x % 9], np.take(np.arange(9), x % 5), x[x > 3], np.nonzero(x)),
    "counts": lambda x: (np.bincount((x % 7).astype("int64").ravel()), np.histogram(x.astype("float64"), 4)[0]),
    "bits": lambda x: (x << 1, x >> 3, ~x, (x & 5) | 2, x ^ (x >> 1), 3 << (x & 3), -x, abs(-x)),
    "numbers": lambda x: (x + 1, 7 - x, x * 3, x // 2, x % 5, x / 4, x**2, 2 ** (x % 5), x + 1.5, x * True),
}


@pytest.mark.parametrize("dtype", ["uint8", *WIDE])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_functions(name, dtype):
    x = edges(dtype)
    check(REDUCTIONS[name], np.concatenate([x, x[::-1]])[: len(x) // 2 * 4].reshape(4, -1))
    check(REDUCTIONS[name], np.arange(6 * 40, dtype=dtype).reshape(6, 40) * 7)


@pytest.mark.parametrize("dtype", WIDE)
def test_python_ints(dtype):
    """They take the array's dtype, or do not fit."""
    x, most = edges(dtype), int(np.iinfo(dtype).max)
    for number in (0, 1, most >> 1, (most >> 1) + 1, most):
        check(
            lambda x, n=number: (x + n, x ^ n, n - x, x * n, np.bitwise_or(x, n), x == n, x < n, n >= x), x, breaks=None
        )
    for number in (-1, most + 1):
        check(lambda x, n=number: x + n, x, breaks=None)
        check(lambda x, n=number: (x == n, x < n, n <= x), x, breaks=None)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("other", DTYPES)
def test_scalars(dtype, other):
    x, scalar = edges(dtype), edges(other)[-1]
    check(lambda x: (x + scalar, x * scalar, scalar - x, x == scalar), x)

    def of_arguments(x, s):
        return x * s, s + x.dtype.type(1), s, x > s

    compiled = cdynamo.optimize(of_arguments)
    for s in [*edges(other), *edges(other)]:
        assert_same(outcome(compiled, x, s), outcome(of_arguments, x, s))


@pytest.mark.parametrize("dtype", WIDE)
def test_results_that_are_scalars(dtype):
    kind = np.dtype(dtype).type
    check(
        lambda x: (x[1] + kind(3), x.max() ^ x[2], kind(7) * x, x.sum() // x.dtype.type(2), x[0].dtype),
        edges(dtype)[1:5],
    )
    check(lambda x: (int(x[3]), x[3].item(), float(x[4]), bool(x[0]), x[:4].tolist(), int(x.sum())), edges(dtype)[:5])


def test_numbers_that_python_reads():
    """What no symbol holds is Python's."""
    for number in (0, 5, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 2**20, 2**64 - 1):
        check(lambda x: (int(x[0]) + 1, x.sum().item() * 2), np.array([number], "uint64"), breaks=None)


WRITES = {
    "iadd": operator.iadd,
    "isub": operator.isub,
    "imul": operator.imul,
    "ixor": operator.ixor,
    "iand": operator.iand,
}


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("name", WRITES)
def test_writes_in_place(name, dtype):
    write = WRITES[name]

    def program(a, b):
        view = a[::2]
        view = write(view, b[::2])
        a[1] = 3
        a[2:4] ^= b[2:4] >> 3
        np.add(a, b, out=a)
        return a, view

    check(program, edges(dtype), edges(dtype)[::-1].copy())
    for other in DTYPES:
        check(lambda a, b: write(a, b), edges(dtype)[:2].copy(), edges(other)[:2].copy(), breaks=None)


@pytest.mark.parametrize("dtype", ["uint8", *WIDE])
def test_items_that_do_not_fit(dtype):
    most = int(np.iinfo(dtype).max)

    def written(x, number):
        x[0] = number
        x[2:4] = number
        return x + 1

    for number in (3, most, -1, most + 1, 2.5, np.int64(-1), np.uint64(2**64 - 1), np.float32(7), True):
        check(lambda x, n=number: written(x, n), edges(dtype), breaks=None)
        check(lambda x, n=number: np.full_like(x, n), edges(dtype), breaks=None)
        check(lambda n=number: np.full(3, n, dtype), breaks=None)


# ---- programs --------------------------------------------------------------------------------------------


def xorshift32(x):
    for _ in range(4):
        x ^= x << np.uint32(13)
        x ^= x >> np.uint32(17)
        x ^= x << np.uint32(5)
    return x / np.float64(2**32)


def xorshift64_star(x):
    x = x ^ (x >> np.uint64(12))
    x = x ^ (x << 25)
    x = x ^ (x >> 27)
    return x * np.uint64(0x2545F4914F6CDD1D), x >> 32


def splitmix64(seeds):
    z = seeds + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * 0x94D049BB133111EB
    return z ^ (z >> np.uint64(31))


def fnv1a(rows):
    h = np.full(rows.shape[0], 0xCBF29CE484222325, dtype=np.uint64)
    for column in range(rows.shape[1]):
        h ^= rows[:, column]
        h *= np.uint64(0x100000001B3)
    return h


def fnv1a_of_32_bits(rows):
    h = np.full(len(rows), 2166136261, dtype=np.uint32)
    for column in rows.T:
        h = (h ^ column) * np.uint32(16777619)
    return h


def crc_table():
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table


def crc32(rows, table):
    crc = np.full(rows.shape[0], 0xFFFFFFFF, dtype=np.uint32)
    for i in range(rows.shape[1]):
        crc = table[(crc ^ rows[:, i]) & 0xFF] ^ (crc >> 8)
    return crc ^ np.uint32(0xFFFFFFFF)


def popcount32(v):
    v = v - ((v >> 1) & 0x55555555)
    v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
    return (((v + (v >> 4)) & 0x0F0F0F0F) * np.uint32(0x01010101)) >> 24


def popcount64(v):
    v = v - ((v >> np.uint64(1)) & np.uint64(0x5555555555555555))
    v = (v & np.uint64(0x3333333333333333)) + ((v >> np.uint64(2)) & np.uint64(0x3333333333333333))
    v = (v + (v >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return ((v * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.uint8)


def murmur_finalizer(h):
    h = h ^ (h >> 16)
    h = h * np.uint32(0x85EBCA6B)
    h ^= h >> 13
    h *= np.uint32(0xC2B2AE35)
    return h ^ (h >> 16)


def statistics(image):
    total = image.sum()
    mean = image.mean()
    centred = image.astype(np.float32) - mean
    scaled = ((image - image.min()).astype(np.uint32) * 255 // np.ptp(image)).astype(np.uint8)
    return total, total.dtype, mean, (centred**2).mean(), scaled, image.sum(axis=0)


def threshold(image):
    above = image > image.mean()
    return np.where(above, image, 0), above.sum(), image[above].sum()


def blend(a, b):
    return ((a.astype(np.uint16) * 3 + b) >> 2).astype(np.uint8)


def bytes_of(words):
    return np.stack([(words >> (8 * i) & 0xFF).astype(np.uint8) for i in range(4)], axis=-1)


def words_of(octets):
    wide = octets.astype(np.uint32)
    return wide[..., 0] | wide[..., 1] << 8 | wide[..., 2] << 16 | wide[..., 3] << 24


def gray_code(x):
    gray = x ^ (x >> 1)
    back = gray.copy()
    for shift in (1, 2, 4, 8, 16):
        back ^= back >> shift
    return gray, back, (back == x).all()


def modular_power(base, exponent, modulus):
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base % modulus
        base = base * base % modulus
        exponent >>= 1
    return result


OCTETS = (np.arange(96).reshape(8, 12) * 37 % 256).astype(np.uint8)
WORDS = (np.arange(1, 65, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)).astype(np.uint32)
LONG_WORDS = np.arange(1, 65, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95)

PROGRAMS = {
    "xorshift32": (xorshift32, WORDS),
    "xorshift64*": (xorshift64_star, LONG_WORDS),
    "splitmix64": (splitmix64, LONG_WORDS),
    "FNV-1a": (fnv1a, OCTETS),
    "FNV-1a of 32 bits": (fnv1a_of_32_bits, OCTETS),
    "table of a CRC": (crc_table,),
    "CRC-32": (crc32, OCTETS, crc_table()),
    "popcount32": (popcount32, WORDS),
    "popcount64": (popcount64, LONG_WORDS),
    "murmur": (murmur_finalizer, WORDS),
    "statistics of bytes": (statistics, OCTETS),
    "statistics of words": (statistics, WORDS.reshape(8, 8).astype(np.uint16)),
    "threshold": (threshold, OCTETS),
    "blend": (blend, OCTETS, OCTETS[::-1].copy()),
    "bytes of words": (bytes_of, WORDS),
    "words of bytes": (words_of, OCTETS.reshape(-1, 4)),
    "Gray code": (gray_code, WORDS),
    "modular power": (modular_power, WORDS.astype(np.uint64), 65, np.uint64(1000003)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    program, *args = PROGRAMS[name]
    check(program, *args, breaks=None if name == "table of a CRC" else 0)


def test_a_hash_that_changes_from_call_to_call():
    """A uint64 that is an argument is an input of the graph, however large."""

    def step(state, x):
        state = (state ^ np.uint64(len(x))) * np.uint64(0x100000001B3) ^ x.sum()
        return state, x ^ state

    compiled = cdynamo.optimize(step)
    before = cdynamo.counters()
    for start in (0, 1, 2**63, 2**64 - 1, 0xCBF29CE484222325, 12345):
        x = np.arange(5, dtype=np.uint64) + np.uint64(start >> 1)
        assert_same(outcome(compiled, np.uint64(start), x), outcome(step, np.uint64(start), x))
    assert cdynamo.counters()["graphs_compiled"] - before["graphs_compiled"] <= 3


def test_a_graph_for_other_dtypes():
    """Guards tell the dtypes apart."""
    compiled = cdynamo.optimize(lambda x, y: (x + y, x >> 1))
    for dtype in (*INTEGERS, *INTEGERS):
        x = edges(dtype)
        assert_same(outcome(compiled, x, x), ("result", (x + x, x >> 1)))


def test_arrays_that_are_views():
    base = np.arange(48, dtype=np.uint32).reshape(6, 8)
    for view in (base[::2], base.T, base[:, ::-1], base[1:, 3], base[::-1, 1::3]):
        check(lambda x: (x * np.uint32(2**31 + 1), x.sum(0), x >> 1), view)
    check(lambda x: x + 1, np.arange(5, dtype=">u4"), breaks=None)
    check(lambda x: x + 1, np.arange(5, dtype=np.ulonglong))


# ---- torch's -----------------------------------------------------------------------------------------------

torch = pytest.importorskip("torch")

CALLS = {
    "xor": lambda x: x ^ x,
    "and": lambda x: x & 3,
    "mul": lambda x: x * x,
    "add": lambda x: x + x,
    "shift": lambda x: x >> 1,
    "eq": lambda x: x == 2,
    "lt": lambda x: x < x,
    "sum": lambda x: x.sum(),
    "max": lambda x: x.max(),
    "div": lambda x: x / x,
    "float": lambda x: x.float() * 2,
    "int64": lambda x: x.to(torch.int64) + 1,
    "back": lambda x: (x.to(torch.int64) * 3).to(x.dtype),
    "clone": lambda x: x.clone(),
    "cat": lambda x: torch.cat([x, x]),
    "stack": lambda x: torch.stack([x, x], 1),
    "view": lambda x: x.reshape(1, -1).expand(3, -1).contiguous(),
    "item": lambda x: x[1].item(),
    "index": lambda x: x[torch.tensor([1, 0])],
    "as index": lambda x: torch.arange(9)[x],
    "mask": lambda x: x[torch.tensor([True, False, True, True])],
    "where": lambda x: torch.where(x == x, x, x),
    "promotion": lambda x: x + x.to(torch.int32),
    "promotion of bool": lambda x: x * x.to(torch.bool),
    "with floats": lambda x: x + x.to(torch.float32),
    "numpy": lambda x: x.numpy() + 1,
    "from numpy": lambda x: torch.from_numpy(x.numpy() >> 1),
    "zeros": lambda x: torch.zeros(3, dtype=x.dtype),
    "made": lambda x: (torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 3)),
    "fill": lambda x: x.clone().fill_(3),
    "copy": lambda x: x.clone().copy_(x.to(torch.int32)),
    "setitem": lambda x: operator.setitem(x, 0, 5),
    "ixor": lambda x: x.clone().bitwise_xor_(x),
    "sort": lambda x: x.sort().values,
    "flip": lambda x: x.flip(0),
    "neg": lambda x: -x,
    "abs": lambda x: x.abs(),
    "pow": lambda x: x**2,
    "masked_fill": lambda x: x.masked_fill(x == x, 3),
    "truth": lambda x: (bool(x[0]), x.any()),
    "cumsum": lambda x: x.cumsum(0),
    "sqrt": lambda x: x.sqrt(),
    "tolist": lambda x: x.tolist(),
}


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("name", CALLS)
def test_what_eager_has(name, dtype):
    """What eager refuses raises eager's error."""

    def described(kind, result):
        if kind != "result":
            return kind, result
        leaves = result if isinstance(result, tuple) else (result,)
        return kind, [(x.dtype, x.stride(), x.tolist()) if isinstance(x, torch.Tensor) else x for x in leaves]

    x = torch.from_numpy(edges(dtype)[[1, 2, 5, -1]])
    compiled = cdynamo.optimize(CALLS[name])
    for _ in range(2):
        one, other = x.clone(), x.clone()
        got, expected = outcome(compiled, one), outcome(CALLS[name], other)
        assert str(described(*got)) == str(described(*expected))
        assert one.tolist() == other.tolist()
