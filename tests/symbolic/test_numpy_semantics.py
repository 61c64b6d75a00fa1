"""NumPy programs against NumPy itself: values, dtypes, shapes, strides, scalars, in-place writes and aliasing."""

import copy
import enum
import operator
import re
import warnings

import pytest

np = pytest.importorskip("numpy")

import cdynamo  # noqa: E402


def leaves(value):
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def compare(got, expected):
    got, expected = leaves(got), leaves(expected)
    assert len(got) == len(expected)
    for x, y in zip(got, expected):
        assert type(x) is type(y)
        if isinstance(x, np.ndarray):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            assert x.strides == y.strides or x.size <= 1
            np.testing.assert_allclose(x, y, rtol=1e-6 if x.dtype == np.float32 else 1e-12)
        elif isinstance(x, (float, np.floating)):
            np.testing.assert_allclose(x, y, rtol=1e-6)
        else:
            assert x == y


def check(function, *args, compiled=True, times=2):
    fast = cdynamo.optimize(function)
    before = cdynamo.counters()
    for _ in range(times):
        eager_args, fast_args = copy.deepcopy(args), copy.deepcopy(args)
        expected, got = function(*eager_args), fast(*fast_args)
        compare(got, expected)
        compare(list(fast_args), list(eager_args))
    after = cdynamo.counters()
    if compiled:
        assert after["graphs_compiled"] > before["graphs_compiled"]
        assert after["graph_breaks"] == before["graph_breaks"]
    return got


X = np.linspace(-1.0, 2.0, 24).reshape(4, 6)

PROGRAMS = {
    "arithmetic": lambda x: (
        x + 1,
        1 - x,
        x * x,
        1 / (x + 5),
        x // 0.5,
        x % 0.7,
        x**2,
        x**0.5 if False else 0,
        -x,
        abs(x),
    ),
    "ufuncs": lambda x: (np.exp(x), np.sin(x), np.sqrt(np.abs(x)), np.maximum(x, 0), np.tanh(x), np.log1p(np.abs(x))),
    "comparison": lambda x: (x > 0, x == x, (x > 0) & (x < 1), ~(x > 0), np.where(x > 0, x, -1.0)),
    "reductions": lambda x: (
        x.sum(),
        x.mean(axis=0),
        np.max(x, axis=1, keepdims=True),
        x.std(),
        x.var(axis=1, ddof=1),
        x.argmax(axis=1),
    ),
    "views": lambda x: (x.T, x[1:, ::2], x[::-1], x.reshape(6, 4), x[None], x[..., 0], x.ravel()),
    "scalars": lambda x: (x[1, 2], x.sum() * 2, x[0, 0] + x[1, 1], x.max() - x.min()),
    "matmul": lambda x: (x @ x.T, np.dot(x, x.T), x[0] @ x[1]),
    "dtypes": lambda x: (
        x.astype(np.float32) + 1,
        x.astype(np.int64) / 2,
        np.float32(2) * x.astype(np.float32),
        x.astype("int32") + 1.5,
    ),
    "joining": lambda x: (np.concatenate([x, x]), np.stack([x, x], axis=1), np.vstack((x, x)), np.hstack((x, x))),
    "factories": lambda x: (
        np.zeros((2, 3)),
        np.ones(4, dtype=np.float32),
        np.arange(5),
        np.linspace(0, 1, 4),
        np.zeros_like(x),
        np.eye(3),
        np.array([1, 2, 3]),
    ),
    "fancy": lambda x: (x[[0, 2]], x[np.array([1, 3])], x[np.array([0, 1]), np.array([2, 3])]),
    "ranges": lambda x: (x[range(3)], x[x.argmax(0) * 0 + 1, range(x.shape[1])], x[range(3, 0, -1), None, 2]),
    "metadata": lambda x: (x.shape, x.ndim, x.size, x.dtype, len(x), x + 0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    check(PROGRAMS[name], X)


def test_negative_strides_come_in():
    check(lambda x: x * 2 + x.sum(axis=0), X[::-1, ::2])


def test_heat_stencil_writes_its_argument():
    def heat(u, steps):
        for _ in range(steps):
            u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        return u

    check(heat, np.sin(np.arange(50.0)), 5)
    u = np.arange(10.0) ** 2
    assert cdynamo.optimize(heat)(u, 2) is u


def test_in_place_operators():
    def f(x):
        x += 1
        x[0] *= 2
        y = x.copy()
        y -= x.mean()
        x[:, 1] = 7
        return y

    check(f, X)


def test_out_argument():
    def f(x, out):
        np.add(x, 1, out=out)
        return np.multiply(out, 2, out=out)

    check(f, X, np.empty_like(X))


def test_a_scalar_is_a_copy():
    def f(x):
        first = x[0, 0]
        x[0, 0] = 100.0
        return first, x[0, 0]

    check(f, X)


def test_scalar_result_types():
    got = check(lambda x: (x.sum(), x.astype(np.float32).sum(), (x > 0).sum(), x.any(), x.argmin()), X)
    assert [type(v) for v in got] == [np.float64, np.float32, np.int64, np.bool_, np.int64]


def test_mask_assignment():
    def f(x):
        x[x < 0] = 0.0
        return x

    check(f, X)


UNUSUAL = {
    "object": np.array([1, "a"], dtype=object),
    "complex": np.ones(3, dtype=complex),
    "big endian": np.arange(3, dtype=">f8"),
    "structured": np.zeros(2, dtype=[("a", "f4")]),
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_unusual_arrays_run_in_numpy(kind):
    x = UNUSUAL[kind]
    got, expected = cdynamo.optimize(lambda x: x[:1])(x), x[:1]
    assert got.dtype == expected.dtype and got.shape == expected.shape


def test_read_only_array_raises_as_numpy_does():
    x = np.zeros(3)
    x.flags.writeable = False

    def f(x):
        x[0] = 1
        return x

    with pytest.raises(ValueError):
        cdynamo.optimize(f)(x)


def test_data_dependent_size_breaks():
    check(lambda x: (x[x > 0] * 2).sum(), X, compiled=False)


def test_random_numbers_are_not_frozen():
    fast = cdynamo.optimize(lambda x: x + np.random.rand(6))
    assert not np.array_equal(fast(X), fast(X))


def test_k_means():
    def k_means(points, centers):
        for _ in range(3):
            distances = ((points[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
            labels = np.argmin(distances, axis=1)
            one_hot = (labels[:, None] == np.arange(centers.shape[0])[None, :]).astype(points.dtype)
            centers = (one_hot.T @ points) / one_hot.sum(axis=0)[:, None]
        return centers, labels

    generator = np.random.default_rng(0)
    check(k_means, generator.normal(size=(30, 2)), generator.normal(size=(3, 2)))


def test_softmax_regression():
    def train(x, y, w):
        for _ in range(3):
            z = x @ w
            z = z - z.max(axis=1, keepdims=True)
            e = np.exp(z)
            p = e / e.sum(axis=1, keepdims=True)
            w = w - 0.1 * x.T @ (p - y) / x.shape[0]
        return w, -np.mean(np.sum(y * np.log(p), axis=1))

    generator = np.random.default_rng(0)
    check(train, generator.normal(size=(20, 4)), np.eye(3)[generator.integers(0, 3, 20)], np.zeros((4, 3)))


def test_views_of_scalars_that_are_results_too():
    def f(a):
        s = a.sum()
        return s, np.atleast_1d(s), np.copy(s), np.where(s > 0, 1.0, 2.0), np.full_like(s, 2.0), s + 0

    a = np.ones((2, 3))
    expected, got = f(a), cdynamo.optimize(f)(a)
    assert [type(x) for x in got] == [type(x) for x in expected]
    assert [np.shape(x) for x in got] == [np.shape(x) for x in expected]
    np.testing.assert_array_equal(got[1], expected[1])
    got[2][...] = 7.0
    assert (got[0], got[1][0], got[5]) == (6.0, 6.0, 6.0)


def test_errors_that_numpy_is_asked_to_raise():
    def divide(a, b):
        return a / b

    def strict(a, b):
        with np.errstate(all="raise"):
            return a / b

    a, b = np.ones(3), np.zeros(3)
    fast = cdynamo.optimize(divide)
    assert np.isinf(fast(a, b)).all()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        fast(a, b)
    assert np.isinf(fast(a, b)).all()
    with pytest.raises(FloatingPointError):
        cdynamo.optimize(strict)(a, b)


@np.errstate(divide="raise")
def decorated_to_raise(a):
    return a / 0


def raising_from_here_on(a):
    before = np.seterr(divide="raise")
    try:
        return a / 0
    finally:
        np.seterr(**before)


@np.errstate(divide="ignore", invalid="ignore")
def decorated(a):
    return a / 0


@pytest.mark.parametrize("function", [decorated_to_raise, raising_from_here_on])
def test_errors_that_the_function_asks_for(function):
    fast, treatments = cdynamo.optimize(function), np.geterr()
    for _ in range(3):
        with pytest.raises(FloatingPointError):
            fast(np.ones(3))
        assert np.geterr() == treatments


def test_errstate_as_a_decorator_breaks_nothing():
    fast, treatments = cdynamo.optimize(lambda a: decorated(a) + 1, fullgraph=True), np.geterr()
    for _ in range(2):
        assert np.isinf(fast(np.ones(3))).all()
    with np.errstate(over="ignore"):
        assert np.isinf(fast(np.ones(3))).all()
    with np.errstate(over="raise"):
        assert np.isinf(decorated(np.ones(3))).all()
        assert np.isinf(cdynamo.optimize(decorated)(np.ones(3))).all()
    assert np.geterr() == treatments


ONE_BY_ONE = {
    "reciprocal": (lambda a: np.reciprocal(a), ["bool", "int32", "float32"]),
    "conj": (lambda a: np.conj(a), ["bool", "int8"]),
    "trace": (lambda a: np.trace(a), ["uint8", "int8", "bool"]),
    "sinc": (lambda a: np.sinc(a), ["float16", "float64", "int64"]),
    "number beside half": (lambda a: a * 3.14159 + 0.1, ["float16"]),
}


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_dtypes_of(name):
    function, dtypes = ONE_BY_ONE[name]
    fast = cdynamo.optimize(function)
    for dtype in dtypes:
        a = (np.arange(9).reshape(3, 3) - 2).astype(dtype)
        with np.errstate(all="ignore"):
            expected = function(a)
        got = fast(a)
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_numpy_floats_that_change_compile_twice():
    def f(a, s):
        return a * s, s + 1, s, -s

    fast = cdynamo.optimize(f)
    a = np.arange(4.0)
    before = cdynamo.counters()["graphs_compiled"]
    for value in (0.0, 1.5, 2.0, -3.25, np.inf, 7.0):
        s = np.float64(value)
        with np.errstate(invalid="ignore"):
            expected = f(a, s)
        got = fast(a, s)
        assert [type(x) for x in got] == [type(x) for x in expected]
        for x, y in zip(got, expected):
            np.testing.assert_array_equal(x, y)
    assert cdynamo.counters()["graphs_compiled"] - before == 2
    np.testing.assert_array_equal(fast(a, 2.0)[0], a * 2.0)
    assert type(fast(a, 2.0)[1]) is float


INTS = (-300, -1, 127, 300, 70_000, 2**40)
WITH_INTS = {
    "add": lambda a, k: a + k,
    "rsub": lambda a, k: k - a,
    "floordiv": lambda a, k: a // k,
    "mod": lambda a, k: k % (a + 1),
    "or": lambda a, k: a | k,
    "compare": lambda a, k: a < k,
    "maximum": lambda a, k: np.maximum(a, k),
    "where": lambda a, k: np.where(a > 0, a, k),
    "full_like": lambda a, k: np.full_like(a, k),
    "clip": lambda a, k: np.clip(a, 0, k),
    "power": lambda a, k: np.power(k, a),
    "hypot": lambda a, k: np.hypot(a, k),
    "divide": lambda a, k: a / k,
}


@pytest.mark.parametrize("name", WITH_INTS)
def test_ints_beside_integers_are_in_range(name):
    function = WITH_INTS[name]

    def outcome(f, *args):
        try:
            with np.errstate(all="ignore"):
                return looks(f(*args))
        except OverflowError as error:
            return str(error)

    def looks(result):
        return result.dtype, result.tolist()

    for dtype in ("int8", "uint8", "int16", "int32", "int64"):
        a = np.array([0, 3, 100]).astype(dtype)
        for k in INTS:
            assert outcome(cdynamo.optimize(function), a, k) == outcome(function, a, k), (dtype, k)


@pytest.mark.parametrize("scalar", [np.int64(3), np.float32(2.5), np.bool_(True)], ids=str)
def test_an_array_made_of_a_scalar_is_a_new_one_each_time(scalar):
    def program(x, scalar):
        return scalar[None], scalar[...], scalar[()], scalar[None, ..., None], scalar.__array_interface__["shape"], x

    fast = cdynamo.optimize(program)
    for _ in range(2):
        got, expected = fast(np.ones(1), scalar), program(np.ones(1), scalar)
        assert got[0] is not got[1] and not np.shares_memory(got[0], got[1])
        compare(got, expected)
        for array in (got[0], got[1], got[3]):
            array[...] = np.zeros_like(array)


def test_an_array_made_of_a_scalar_in_a_loop_that_breaks():
    def program(x, scalar):
        made = []
        while x.sum() < 20 and len(made) < 3:
            made.append(scalar[None])
            cdynamo.graph_break()
        return made

    arrays = cdynamo.optimize(program)(np.ones(1), np.int64(3))
    assert len({id(array) for array in arrays}) == 3


@pytest.mark.parametrize(
    "f",
    [
        lambda y: {2, 1} ^ {v * 2 for v in y},
        lambda y: {2, 1}.intersection([v * 2 for v in y]),
        lambda y: len({y[0], y[1] - 1, 0}),
        lambda y: {0: "a", 2: "b"}.get(y[1] * 2),
        lambda y: (y[1] * 2 in {2, 5}, y[1] * 2 in (2, 5), y[1] * 3 in {2: 0}),
        lambda y: {y[1] * 2: 1, 2: 3},
    ],
)
def test_scalars_are_looked_up_by_value(f):
    y = np.arange(2.0, dtype=np.float32)
    got, expected = cdynamo.optimize(f)(y), f(y)
    assert got == expected and repr(got) == repr(expected)


class Kind(enum.IntEnum):
    NONE, ONE, TWO = range(3)


class Count(int):
    pass


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64, np.bool_])
def test_ints_of_subclasses_are_arrays_of_int64(dtype):
    """Their width counts in promotion, where that of an int does not."""
    x = np.arange(6).astype(dtype)

    def f(x, n):
        of_call = Kind(n % 3)
        return (
            x + Kind.ONE, Kind.TWO * x, x + of_call, x == Kind.ONE, np.maximum(x, Kind.ONE), np.where(x, x, Kind.TWO),
            np.clip(x, Kind.NONE, Kind.TWO), x + Count(3), np.full(3, Kind.ONE), x[Kind.TWO], x.reshape(Kind.TWO, 3),
            np.add(x, 1), x.sum(axis=Kind.NONE),
        )  # fmt: skip

    for n in (4, 5):
        for got, want in zip(cdynamo.optimize(f)(x, n), f(x, n), strict=True):
            assert got.dtype == want.dtype and np.array_equal(got, want)
    if dtype is np.float32:
        got, want = x.copy(), x.copy()
        want += Kind.TWO
        cdynamo.optimize(lambda x: operator.iadd(x, Kind.TWO))(got)
        assert got.dtype == want.dtype and np.array_equal(got, want)


@pytest.mark.parametrize("shape", [(0, 3), (1, 2)])
def test_more_dims_than_an_array_may_have(shape):
    def grown(x, times):
        for _ in range(times):
            x = x + x[None]
        return x

    compiled = cdynamo.optimize(grown)
    for times in (62, 63, 70):
        x = np.zeros(shape)
        if times == 62:
            assert compiled(x, times).shape == grown(x, times).shape
            continue
        with pytest.raises(IndexError) as plain:
            grown(x, times)
        with pytest.raises(IndexError) as ours:
            compiled(x, times)
        assert str(ours.value) == str(plain.value)


WRITES = {
    "an element": lambda a, x: a.__setitem__(0, x.sum()),
    "a slice": lambda a, x: a.__setitem__(slice(0, 2), x.max()),
    "all": lambda a, x: a.__setitem__(..., x[1]),
    "by an array": lambda a, x: a.__setitem__(np.array([0]), x.sum()),
    "filled": lambda a, x: a.fill(x.sum()),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("to", ["int8", "uint8", "int16", "int64", "uint64", "float32"])
def test_a_scalar_is_written_where_its_number_fits(name, to):
    """NumPy makes a Python int of a scalar first, which is refused where the dtype does not hold it."""

    def outcome(write, x):
        a = np.zeros(3, to)
        try:
            write(a, x)
        except OverflowError as error:
            return str(error), a.tolist()
        return a.tolist()

    for from_ in ("int8", "uint8", "int32", "int64"):
        fast = cdynamo.optimize(WRITES[name])
        for numbers in ([1, 2], [100, 100], [3, -4]):
            x = np.array(numbers).astype(from_)
            assert outcome(fast, x) == outcome(WRITES[name], x), (from_, numbers)


AXES = ["sum", "prod", "mean", "std", "max", "any", "count_nonzero", "nansum", "ptp", "squeeze", "flip", "average"]


@pytest.mark.parametrize("name", AXES)
def test_axes_in_a_list(name):
    """Most functions want an integer or a tuple."""

    def program(x, axes):
        return getattr(np, name)(x, axis=axes)

    def outcome(function, axes):
        try:
            return np.asarray(function(np.ones((1, 3)), axes)).tolist()
        except TypeError as error:
            return str(error)

    for axes in ([0], (0,), 0):
        assert outcome(cdynamo.optimize(program), axes) == outcome(program, axes)


def test_what_is_made_of_a_list_or_in_place():
    def replaced(x):
        result = np.nan_to_num(x, copy=False, nan=7.0)
        return result is x, result, x

    def differences(x):
        result = np.diff(x, n=0)
        return result is x, result

    for _ in range(2):
        x = np.array([np.nan, 1, np.inf])
        expected, got = replaced(x.copy()), cdynamo.optimize(replaced)(x)
        assert got[0] is expected[0] is True
        np.testing.assert_array_equal(x, expected[2])
    for argument in ([1, 2], np.arange(3.0)):
        assert cdynamo.optimize(differences)(argument)[0] is True


@pytest.mark.parametrize("width", [2, -2, (1, 2), (3, -1), (-2,), ((5, 2), (-2, 3))])
def test_widths_of_padding(width):
    def program(x, width):
        return np.pad(x, width)

    def outcome(function):
        try:
            return function(np.arange(6).reshape(2, 3), width).tolist()
        except ValueError as error:
            return str(error)

    assert outcome(cdynamo.optimize(program)) == outcome(program)


PAIRS_OF_AXES = {
    "rot90": lambda x, a: np.rot90(x, 1, a),
    "rot90 back": lambda x, a: np.rot90(x, -1, a),
    "trace": lambda x, a: np.trace(x, 0, *a),
    "diagonal": lambda x, a: np.diagonal(x, 0, *a),
    "norm": lambda x, a: np.linalg.norm(x, axis=a),
    "norm of columns": lambda x, a: np.linalg.norm(x, 1, axis=a),
    "norm of rows": lambda x, a: np.linalg.norm(x, np.inf, axis=a),
    "tensordot": lambda x, a: np.tensordot(x, x, axes=(a, a)),
    "moveaxis": lambda x, a: np.moveaxis(x, a, (0, 1)),
    "swapaxes": lambda x, a: np.swapaxes(x, *a),
    "roll": lambda x, a: np.roll(x, (1, 2), a),
    "sum": lambda x, a: np.sum(x, axis=a),
}


@pytest.mark.parametrize("name", PAIRS_OF_AXES)
def test_pairs_of_axes(name):
    """In either order, and one twice."""
    program = PAIRS_OF_AXES[name]
    x = np.arange(24.0).reshape(2, 3, 4)

    def outcome(function, axes):
        try:
            return np.asarray(function(x, axes)).tolist()
        except (ValueError, IndexError) as error:
            return str(error)

    for axes in [(0, 1), (1, 0), (2, 0), (-1, 1), (0, 0), (1, -2), (0, 3)]:
        cdynamo.reset()
        assert outcome(cdynamo.optimize(program), axes) == outcome(program, axes)


def filled_by_a_list(x):
    x[0] = [[1.0, 2.0, 3.0]]


REFUSED = {
    "weights of no sum": (lambda x, w: np.average(x, axis=0, weights=w), (np.ones((2, 3)), np.array([1.0, -1.0]))),
    "weights of zeros": (lambda x, w: np.average(x, weights=w) + 1, (np.ones((2, 3)), np.zeros((2, 3), bool))),
    "indices that are bools": (lambda x, i: np.take_along_axis(x, i, 0), (np.ones((2, 3)), np.ones((2, 3), bool))),
    "indices that are floats": (lambda x, i: np.take_along_axis(x, i, 0), (np.ones(3), np.zeros(3))),
    "a list of more dims": (filled_by_a_list, (np.ones((1, 3)),)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses(name):
    function, arguments = REFUSED[name]
    fast = cdynamo.optimize(function)
    for _ in range(2):
        with pytest.raises(Exception) as expected:
            function(*arguments)
        with pytest.raises(type(expected.value), match=re.escape(str(expected.value))):
            fast(*arguments)


def test_weights_that_have_a_sum():
    fast = cdynamo.optimize(lambda x, w: np.average(x, axis=0, weights=w), fullgraph=True)
    x = np.arange(6.0).reshape(2, 3)
    for weights in (np.array([1.0, 2.0]), np.array([-3.0, 1.0]), np.array([0.0, 0.5])):
        np.testing.assert_allclose(fast(x, weights), np.average(x, axis=0, weights=weights))
    with pytest.raises(ZeroDivisionError):
        fast(x, np.array([1.0, -1.0]))
    np.testing.assert_allclose(fast(x, np.array([1.0, 1.0])), x.mean(0))


@pytest.mark.parametrize("convert", [float, int, complex, bool], ids=lambda kind: kind.__name__)
def test_numbers_of_arrays_with_dims(convert):
    """NumPy 2.4 refuses all but bool; before it warned."""

    def outcome(f, x):
        try:
            return f(x)
        except (TypeError, ValueError) as error:
            return str(error)

    for x in (np.array([2.5]), np.array([[1]]), np.array(3.5), np.float32(1.5), np.array([1.0, 2.0])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert outcome(cdynamo.optimize(lambda x: convert(x)), x) == outcome(convert, x)


def test_what_arrays_have_no_more():
    def asked(x):
        return hasattr(x, "ptp"), hasattr(x, "itemset"), hasattr(x, "newbyteorder"), hasattr(x, "mT"), hasattr(x, "sum")

    x = np.ones((2, 3))
    assert cdynamo.optimize(asked)(x) == asked(x)
    if not hasattr(x, "ptp"):
        with pytest.raises(AttributeError):
            cdynamo.optimize(lambda x: x.ptp())(x)


def test_a_scalar_type_gives_back_an_array_of_its_dtype():
    def converted(x):
        same = np.float64(x)
        other = np.float32(x)
        same[0] = 7.0
        return same is x, same, other

    x = np.arange(3.0)
    y, fast = x.copy(), cdynamo.optimize(converted)
    expected, got = converted(x), fast(y)
    assert got[0] is expected[0] and (got[1] is y) == (expected[1] is x)
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(got[2], expected[2])


def test_array_split_counts_the_items_of_a_list():
    def parts(x):
        return [each.tolist() for each in np.array_split(x, 2, -1)]

    for given in ([[1, 2, 3]], [[1, 2], [3, 4], [5, 6]], np.arange(6).reshape(2, 3)):
        assert cdynamo.optimize(parts)(given) == parts(given)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_clip_between_numbers_keeps_the_sign_of_zero(dtype):
    def program(x):
        return (
            np.clip(x, 0, 1),
            x.clip(-1.0, 0.0),
            np.clip(x, -0.0, 0.0),
            np.clip(x, 2, 1),
            np.clip(x, np.nan, 1),
            x.clip(0, np.inf),
        )

    x = np.array([-0.0, 0.0, 0.5, 1.0, -3.0, np.nan, np.inf, -np.inf] * 5, dtype)
    for got, expected in zip(cdynamo.optimize(program, fullgraph=True)(x), program(x), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(expected)[known])


def test_a_standard_deviation_in_integers_is_left_to_numpy():
    def rows(x):
        return np.std(x, axis=0, dtype=int)

    for run in (rows, cdynamo.optimize(rows)):
        with pytest.raises(TypeError, match="Cannot cast ufunc 'sqrt' output"):
            run(np.arange(6.0).reshape(2, 3))
    assert cdynamo.optimize(lambda x: np.std(x, dtype=int))(np.arange(6.0)) == 1
