"""Where NumPy puts the elements of its results: memory order and writeability of every function, over arrays in any order."""

import itertools
import random

import pytest

np = pytest.importorskip("numpy")

import cdynamo  # noqa: E402

INDEX = np.array([[0, 1], [1, 0]])

ONE = {
    "exp": lambda a: np.exp(a),
    "scaled": lambda a: a * 2,
    "sum first": lambda a: a.sum(0),
    "sum last": lambda a: a.sum(-1),
    "sum keepdims": lambda a: a.sum(1, keepdims=True),
    "max": lambda a: a.max(1),
    "mean": lambda a: a.mean(0),
    "std": lambda a: a.std(0),
    "var": lambda a: a.var(1),
    "argmax": lambda a: a.argmax(0),
    "any": lambda a: (a > 0).any(0),
    "ptp": lambda a: np.ptp(a, axis=0),
    "norm": lambda a: np.linalg.norm(a, axis=0),
    "average": lambda a: np.average(a, axis=0),
    "nansum": lambda a: np.nansum(a, 0),
    "count_nonzero": lambda a: np.count_nonzero(a > 0, axis=0),
    "trace": lambda a: np.trace(a),
    "cumsum": lambda a: np.cumsum(a),
    "cumsum first": lambda a: np.cumsum(a, 0),
    "cumprod": lambda a: a.cumprod(1),
    "diff": lambda a: np.diff(a),
    "diff first": lambda a: np.diff(a, axis=0),
    "roll": lambda a: np.roll(a, 1),
    "roll first": lambda a: np.roll(a, 1, 0),
    "pad": lambda a: np.pad(a, 1),
    "copy": lambda a: a.copy(),
    "np.copy": lambda a: np.copy(a),
    "copy C": lambda a: a.copy(order="C"),
    "astype": lambda a: a.astype(np.float32),
    "clip": lambda a: np.clip(a, -1, 1),
    "dot": lambda a: np.dot(a, 2.0),
    "dot of integers": lambda a: np.dot(3, a.astype(np.int64)),
    "inner of floats": lambda a: np.inner(a.astype(np.float32), np.float32(2)),
    "where": lambda a: np.where(a > 0, a, 0),
    "round": lambda a: np.round(a, 1),
    "rint": lambda a: np.round(a),
    "zeros_like": lambda a: np.zeros_like(a),
    "full_like": lambda a: np.full_like(a, 2),
    "ravel": lambda a: a.ravel(),
    "ravel K": lambda a: a.ravel(order="K"),
    "flatten": lambda a: a.flatten(),
    "tile": lambda a: np.tile(a, 2),
    "repeat": lambda a: np.repeat(a, 2, 1),
    "triu": lambda a: np.triu(a),
    "tril": lambda a: np.tril(a),
    "take": lambda a: a.take([0, 1], axis=1),
    "flip": lambda a: np.flip(a, 0) * 1,
    "backwards": lambda a: np.copy(a[:, ::-1]),
    "rot90": lambda a: np.rot90(a),
    "rot180": lambda a: np.rot90(a, 2),
    "rot270": lambda a: np.rot90(a, 3),
    "list": lambda a: a[[0, 1]],
    "list after slice": lambda a: a[:, [1, 0]],
    "two lists": lambda a: a[[0, 1], [1, 0]],
    "array": lambda a: a[INDEX],
    "array after slice": lambda a: a[:, INDEX],
    "array in column order": lambda a: a[INDEX.T],
    "ix_": lambda a: a[np.ix_([0, 1], [1, 0])],
    "new axis": lambda a: a[:, None] * 1,
    "kron": lambda a: np.kron(a, a),
    "kron with a number": lambda a: np.kron(a, np.array(2)),
    "kron of a number": lambda a: np.kron(2, a),
    "kron of a row": lambda a: np.kron(a[:1], a),
    "kron with a list": lambda a: np.kron(a, [[1], [2]]),
    "expand_dims": lambda a: np.expand_dims(a, 0) + a[None],
    "diagonal": lambda a: np.diagonal(a),
    "broadcast_to": lambda a: np.broadcast_to(a, (2, *a.shape)),
    "view of broadcast_to": lambda a: np.broadcast_to(a, (2, *a.shape))[1],
    "numpy.array": lambda a: np.array(a),
    "softmax": lambda a: np.exp(a - a.max(-1, keepdims=True)) / np.exp(a).sum(-1, keepdims=True),
}
TWO = {
    "add": lambda a, b: a + b,
    "maximum": lambda a, b: np.maximum(a, b),
    "clip": lambda a, b: np.clip(a, b, a[0]),
    "clip of a row": lambda a, b: np.clip(a[0], b, a),
    "compare": lambda a, b: a < b,
    "where": lambda a, b: np.where(a > 0, a, b),
    "broadcast": lambda a, b: a + b[0],
    "concatenate": lambda a, b: np.concatenate([a, b]),
    "concatenate second": lambda a, b: np.concatenate([a, b], axis=1),
    "concatenate flat": lambda a, b: np.concatenate([a, b], axis=None),
    "stack": lambda a, b: np.stack([a, b]),
    "stack second": lambda a, b: np.stack([a, b], 1),
    "stack last": lambda a, b: np.stack([a, b], -1),
    "vstack": lambda a, b: np.vstack([a, b]),
    "hstack": lambda a, b: np.hstack((a, b)),
    "dstack": lambda a, b: np.dstack((a, b)),
    "column_stack": lambda a, b: np.column_stack((a, b)),
    "array": lambda a, b: np.array([a, b]),
    "tensordot": lambda a, b: np.tensordot(a, b, axes=a.ndim),
}


def laid_out(rng, shape):
    """An array of the shape whose dims lie in memory in any order, some of them strided or backwards."""
    order = list(range(len(shape)))
    rng.shuffle(order)
    step = [rng.choice([1, 1, 1, 2, -1]) for _ in order]
    sizes = [shape[d] * abs(s) for d, s in zip(order, step)]
    base = np.random.RandomState(rng.randrange(999)).randn(*sizes)
    view = base[tuple(slice(None, None, s) for s in step)]
    return view.transpose([order.index(d) for d in range(len(shape))])


def looks(value):
    """What the program can see of an array beside its elements; strides of dims of size 1 do not count."""
    if not isinstance(value, np.ndarray):
        return type(value)
    strides = [stride for stride, size in zip(value.strides, value.shape) if size > 1]
    return value.dtype, value.shape, strides, value.flags.writeable


@pytest.mark.parametrize("arity, name", [(1, name) for name in ONE] + [(2, name) for name in TWO])
def test_results_lie_as_numpy_s(arity, name):
    function = {1: ONE, 2: TWO}[arity][name]
    fast = cdynamo.optimize(function)
    rng = random.Random(name)
    for _ in range(6):
        shape = [rng.choice([2, 3, 4])] * 2 + [rng.choice([1, 2, 3]) for _ in range(rng.choice([0, 0, 1, 2]))]
        arrays = [laid_out(rng, shape) for _ in range(arity)]
        expected, got = function(*arrays), fast(*arrays)
        assert looks(got) == looks(expected), [a.strides for a in arrays]
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


OF_SIZE_ONE = {
    "round": lambda a: a.round(),
    "np.round": lambda a: np.round(a, 2),
    "copy": lambda a: a.copy("K"),
    "np.copy": lambda a: np.copy(a),
    "astype": lambda a: a.astype(np.float32),
    "zeros_like": lambda a: np.zeros_like(a),
    "scaled": lambda a: a * 2,
    "added to itself": lambda a: a + a,
    "cast": lambda a: a + 0.5,
    "clip": lambda a: a.clip(0, 2),
    "floor": lambda a: np.floor(a),
    "positive": lambda a: +a,
    "conjugate": lambda a: np.conj(a),
}
ARRAYS_OF_ONE = {
    "column": lambda a: a[:1].T,
    "columns": lambda a: a[None].T,
    "part": lambda a: a[:, :1],
    "one": lambda a: a[:1, :1],
    "middle": lambda a: a[:, None, ::2],
    "expanded": lambda a: np.broadcast_to(a[0], (3, 4)),
    "expanded and turned": lambda a: np.broadcast_to(a[0], (3, 1, 4)).transpose(2, 1, 0),
    "backwards": lambda a: a[:1, ::-1],
}


@pytest.mark.parametrize("array", ARRAYS_OF_ONE)
@pytest.mark.parametrize("name", OF_SIZE_ONE)
def test_strides_of_dims_of_size_one(name, array):
    """Copies and ufuncs have rules of their own for them."""
    fast = cdynamo.optimize(OF_SIZE_ONE[name])
    for dtype in (np.float64, np.int64):
        a = np.arange(12).astype(dtype).reshape(3, 4)
        expected, got = OF_SIZE_ONE[name](ARRAYS_OF_ONE[array](a)), fast(ARRAYS_OF_ONE[array](a))
        assert (got.strides, got.dtype) == (expected.strides, expected.dtype)
        np.testing.assert_array_equal(got, expected)


CASTS_FIRST = {
    "square": lambda a, b: a**2,
    "cube": lambda a, b: a**3,
    "root": lambda a, b: a**0.5,
    "power": lambda a, b: np.power(a, b.astype(np.float64)),
    "np.square": lambda a, b: np.square(a),
    "float_power": lambda a, b: np.float_power(a, b),
    "floor_divide": lambda a, b: a // 2.5,
    "true_divide": lambda a, b: a / b,
    "mod": lambda a, b: np.mod(a, 1.5),
    "arctan2": lambda a, b: np.arctan2(a, b),
    "hypot": lambda a, b: np.hypot(a, 2),
    "less": lambda a, b: a < b,
    "equal to a float": lambda a, b: a == 0.5,
    "logical_and": lambda a, b: np.logical_and(a, b),
    "logical_not": lambda a, b: np.logical_not(a),
    "signbit": lambda a, b: np.signbit(b),
    "isclose": lambda a, b: np.isclose(a, b),
    "isclose to a number": lambda a, b: np.isclose(b, 1),
    "nan_to_num": lambda a, b: np.nan_to_num(a),
    "sinc": lambda a, b: np.sinc(a),
    "where": lambda a, b: np.where(a, b, 2),
    "unwrap": lambda a, b: np.unwrap(b.astype(np.float32)),
}
TO_BE_CAST = {
    "expanded": lambda a: np.broadcast_to(a[0], (3, 4)),
    "expanded columns": lambda a: np.broadcast_to(a[:, :1], (3, 4)),
    "expanded outside": lambda a: np.broadcast_to(a[:, ::2], (2, 3, 2)),
    "turned": lambda a: a.T,
    "turned, one column": lambda a: a.T[:, None],
    "backwards": lambda a: a[::-1, ::-1].T,
    "every other": lambda a: a[::2, ::2].T,
    "part": lambda a: a[:, :1],
}


@pytest.mark.parametrize("array", TO_BE_CAST)
@pytest.mark.parametrize("name", CASTS_FIRST)
def test_what_is_cast_lies_as_numpy_has_it(name, array):
    """A ufunc casts within its loop, which goes by the order of the operand as it is."""
    function = CASTS_FIRST[name]
    fast = cdynamo.optimize(function, fullgraph=True)
    for dtype, other in ((np.bool_, np.int8), (np.int64, np.float32), (np.float32, np.float32)):
        a, b = (TO_BE_CAST[array](np.arange(12).reshape(3, 4).astype(d)) for d in (dtype, other))
        expected, got = function(a, b), fast(a, b)
        assert (got.strides, got.dtype) == (expected.strides, expected.dtype), (dtype, other)
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def test_read_only_views_are_not_written():
    def write(a):
        np.diagonal(a)[0] = 1.0

    with pytest.raises(ValueError, match="read-only"):
        cdynamo.optimize(write)(np.zeros((3, 3)))


def test_rot90_is_a_view():
    def write(a):
        np.rot90(a)[0, 0] = 5.0
        return a

    np.testing.assert_array_equal(cdynamo.optimize(write)(np.zeros((2, 3))), write(np.zeros((2, 3))))


def test_square_of_bool_is_int8():
    def f(a):
        return a**2, a**3

    a = np.array([True, False])
    for got, expected in zip(cdynamo.optimize(f)(a), f(a)):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def test_method_wrapper_of_an_array():
    def f(a):
        return a.__iadd__(1.0)

    a = np.zeros(3)
    assert cdynamo.optimize(f)(a) is a
    np.testing.assert_array_equal(a, np.ones(3))


REARRANGED = {
    "column": np.arange(3.0).reshape(1, 3).T,
    "row": np.arange(3.0).reshape(3, 1).T,
    "strided column": np.arange(12.0).reshape(3, 4)[::2][:, 1:2],
    "strided": np.arange(12.0).reshape(2, 3, 2)[:1, :, ::2],
    "one element": np.arange(4.0)[::2][:1],
    "odd strides of one": np.lib.stride_tricks.as_strided(np.arange(90.0), (1, 3, 1, 2), (56, 32, 0, 16)),
    "ones between": np.arange(6.0).reshape(2, 3).T[:, None][:, :, :1],
}


@pytest.mark.parametrize("array", REARRANGED.values(), ids=REARRANGED)
def test_strides_of_dims_of_size_one_after_reshape(array):
    for rank in (1, 2, 3):
        for sizes in itertools.product((1, 2, 3, -1), repeat=rank):
            try:
                expected = array.reshape(sizes)
            except ValueError:
                continue
            got, strides = cdynamo.optimize(lambda x, s: (x.reshape(s), x.reshape(s).strides))(array, sizes)
            assert got.strides == strides == expected.strides, sizes
            assert np.shares_memory(got, array)


@pytest.mark.parametrize("array", [*REARRANGED.values(), np.ones((0, 2)), np.ones((3, 2))[::-1]])
def test_expand_dims_gives_the_strides_of_reshape(array):
    def f(x):
        return np.expand_dims(x, 0), np.expand_dims(x, -1), np.expand_dims(x, (0, 2)), np.expand_dims(x * 2, 1)

    cdynamo.reset()
    for got, expected in zip(cdynamo.optimize(f)(array), f(array)):
        assert got.strides == expected.strides
        np.testing.assert_array_equal(got, expected)


def test_writes_through_expand_dims():
    def f(x):
        rows = np.expand_dims(x, 0)
        rows[0, 1] = 5
        return rows

    for array in (np.ones((3, 2)), np.ones((2, 3)).T, np.ones((6, 2))[::-2]):
        ours, theirs = array.copy(order="K"), array.copy(order="K")
        np.testing.assert_array_equal(cdynamo.optimize(f)(ours), f(theirs))
        np.testing.assert_array_equal(ours, theirs)


def test_places_of_known_numbers_lie_as_numpys():
    """The columns of one table."""

    def f():
        return (
            *np.unravel_index([22, 41, 37], (7, 6)),
            *np.unravel_index([[22, 41]], (7, 6, 2)),
            *np.unravel_index(22, (7, 6)),
        )

    for got, expected in zip(cdynamo.optimize(f)(), f(), strict=True):
        assert type(got) is type(expected) and got.strides == expected.strides
        np.testing.assert_array_equal(got, expected)
