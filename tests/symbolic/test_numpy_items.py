"""NumPy's arrays element by element, and as other arrays on the same memory, in compiled programs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_check import assert_same

import cdynamo


def flat(x):
    return (
        x.flat[3],
        x.flat[1:4],
        x.T.flat[1:4],
        sum(x.flat),
        len(x.flat),
        x.flat[[1, 2]],
        x.flat[-1],
        [v * 2 for v in x[0].flat],
    )


def writes_to_flat(x):
    part = x.flat[2:5]
    x.flat[2] = 5.0
    x.flat[3:6] = 0
    x.flat[[7, 8]] = [1, 2]
    y, z = x.copy(), np.zeros_like(x)
    y.flat = 3.0
    z.flat[:: x.shape[1] + 1] = 1
    for i in range(3):
        z.flat[i] += x.flat[i]
    return part, y, z, np.diagflat(x[0, :2])


def views(x):
    y = x.view()
    y[0, 0] = 7
    return (
        y,
        x.view(x.dtype),
        x.flags.writeable,
        np.broadcast_to(x, (2, *x.shape)).flags.writeable,
        x.T.flags["WRITEABLE"],
    )


def windows(x):
    slide = np.lib.stride_tricks.sliding_window_view
    return (
        slide(x, 3, axis=1).mean(-1), slide(x, (2, 3)), slide(x[0], 3), slide(x[0], 2).sum(axis=1), slide(x, (2, 2), axis=(0, 1)).max(axis=(2, 3)),
        slide(x, 2, axis=-1) @ np.array([1.0, -1.0]),
    )  # fmt: skip


def tables(x):
    index = np.abs(np.rint(x)).astype(np.uint8) % 3
    lut = np.arange(256.0)
    lut[index[0]] = -1
    return lut[index], lut[255 - index], x[index[:, 0]], x[index[0, :2], index[1, :2]], np.linspace(0, 1, 256)[index]


def extremes(x):
    d = np.zeros((3, 3))
    for i in range(1, 3):
        for j in range(1, 3):
            d[i, j] = min(d[i - 1, j], d[i, j - 1], x[i, j]) + 1
    nan = x[0, 0] * np.nan
    return (
        d,
        max(x[0, 0], x[1, 1]),
        min(x[0]),
        max(x[:, 0]),
        min(nan, x[0, 0]),
        min(x[0, 0], nan),
        max(x[0, 1], np.float64(0.5)),
    )


def constants(x):
    shifts, weights = np.array([0, 1, -1]), np.array([[1.0, 2.0], [3.0, 4.0]])
    total = np.zeros_like(x)
    for shift, weight in zip(shifts, np.array([0.5, 0.25, 0.25])):
        total += weight * np.roll(x, shift, axis=0)
    for row, (a, b) in zip(x, weights):
        total += a * row - b
    shifts[1] = 2
    view = weights[1:]
    view[0, 0] = x[0, 0]
    return total * shifts[1], weights[1, 0] * x, shifts[-1], weights[0, 1], np.roll(x, np.int64(1))


def arguments_of_ufuncs(x):
    n, out = np.arange(x.shape[1]), np.arange(x.shape[1])
    np.add(out, 1.5, out=out, casting="unsafe")
    return (
        out, np.add(x, 1, dtype=np.float32), np.multiply(x.astype(np.float32), 2, dtype=np.float64), np.add(x, 1, casting="same_kind"), n**n,
        np.power(2, n), n ** (n % 3),
    )  # fmt: skip


def more_of_the_library(x):
    i = (x[0] > 0).astype(int)
    y = x.copy()
    y[0, 1] = np.nan
    return (
        np.append(x, 1.0), np.append(x[0], [1, 2]), np.append(x, x[:1], axis=0), np.ravel(3.0), np.choose(i, [x[0], x[1]]), i.choose([x[0], -x[0]]),
        np.linalg.norm(x, "nuc"), np.linalg.norm(x, 2), np.nanstd(y, axis=0), np.nanvar(y), np.nanmax(y), np.nanmin(y, axis=1), np.nanargmin(y),
        np.nancumprod(y), np.histogram_bin_edges(x, bins=4), np.atleast_3d(x), np.atleast_3d(x[0]), np.atleast_2d(x[0]), np.mgrid[0:3, 0:2],
        np.mgrid[0:4], np.ogrid[0:3, 0:2], np.broadcast_to(x[:1, :1], (3, 1)), np.broadcast_to(x[:1], (2, 1, x.shape[1])),
    )  # fmt: skip


def lists(x):
    x[0, :3] = [1, 2, 3]
    x[1:3] = [[0.5] * x.shape[1], list(x[0])]
    n = np.zeros(3, np.int64)
    n[:2] = [4, 5]
    return n


PROGRAMS = [
    flat,
    writes_to_flat,
    views,
    windows,
    tables,
    extremes,
    constants,
    arguments_of_ufuncs,
    more_of_the_library,
    lists,
]


def example(seed, shape):
    return np.random.default_rng(seed).standard_normal(shape) * 2


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_results_and_writes_are_numpys(program):
    compiled = cdynamo.optimize(program, fullgraph=True)
    for seed, shape in enumerate([(4, 6), (4, 6), (5, 7)]):
        ours, numpys = example(seed, shape), example(seed, shape)
        assert_same(compiled(ours), program(numpys))
        np.testing.assert_array_equal(ours, numpys)


def test_what_numpy_repeats_or_leaves_out_is_left_to_it():
    def program(x):
        x.flat = np.arange(3.0)
        x.T.flat[:4] = 1
        x.flat[:2] = np.arange(9.0)
        return x.view(np.int64), x[:, 0].flags.owndata

    compiled = cdynamo.optimize(program)
    for _ in range(2):
        ours, numpys = example(0, (4, 6)), example(0, (4, 6))
        assert_same(compiled(ours), program(numpys))
        np.testing.assert_array_equal(ours, numpys)


def test_a_read_only_argument_says_so():
    def program(x):
        return x + 1 if x.flags.writeable else x - 1

    compiled = cdynamo.optimize(program, fullgraph=True)
    x, fixed = np.ones(3), np.ones(3)
    fixed.flags.writeable = False
    for _ in range(2):
        assert_same(compiled(x), x + 1)
        assert_same(compiled(fixed), fixed - 1)


def test_windows_are_not_written():
    def program(x):
        w = np.lib.stride_tricks.sliding_window_view(x, 3)
        w[0] = 1
        return w

    with pytest.raises(ValueError, match="read-only"):
        cdynamo.optimize(program)(np.arange(6.0))


FLAT_KEYS = [
    None, (), (1,), (1, 2), (...,), (slice(1, 3),), True, [True, False, True], np.array(True), np.array([True] + [False] * 8), 1.0, -1, 9,
    slice(None, None, -2), ..., [1, 2], [], np.array([[1, 2], [0, 3]]), np.array(3), np.array([9]), "a",
]  # fmt: skip


@pytest.mark.parametrize("key", FLAT_KEYS, ids=repr)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_keys_of_flat(key):
    def read(x):
        return x.flat[key]

    def write(x):
        x.flat[key] = 7

    for program in (read, write):
        ours, numpys = np.arange(9).reshape(3, 3), np.arange(9).reshape(3, 3)
        assert outcome(cdynamo.optimize(program), ours) == outcome(program, numpys)
        np.testing.assert_array_equal(ours, numpys)


REDUCED_INTO = {
    "sum": lambda x, out: np.sum(x, axis=0, out=out),
    "add.reduce": lambda x, out: np.add.reduce(x, axis=0, keepdims=True, out=out),
    "max": lambda x, out: x.max(axis=0, out=out),
    "mean": lambda x, out: np.mean(x, axis=0, out=out),
    "cumsum": lambda x, out: np.cumsum(x, axis=0, out=out),
    "matmul": lambda x, out: np.matmul(x, x.T, out=out),
    "take": lambda x, out: np.take(x, [1, 0], axis=0, out=out),
    "concatenate": lambda x, out: np.concatenate([x, x], out=out),
}


@pytest.mark.parametrize("name", REDUCED_INTO)
def test_nothing_is_broadcast_to_what_is_filled(name):
    program = REDUCED_INTO[name]
    for dtype in (np.float64, np.float32, np.int8, np.int64):
        for shape in ((3,), (1, 3), (4, 3), (4, 4), (2, 3), (8, 3), (5, 4, 3), (1,), ()):
            for x in (np.arange(12.0).reshape(4, 3), np.arange(100, 112, dtype=np.int8).reshape(4, 3)):
                ours, numpys = np.full(shape, 7, dtype), np.full(shape, 7, dtype)
                cdynamo.reset()
                assert outcome(cdynamo.optimize(program), x, ours) == outcome(program, x, numpys), (dtype, shape)
                np.testing.assert_array_equal(ours, numpys)


def outcome(function, *args):
    try:
        result = function(*args)
    except Exception as error:
        return type(error)
    return type(result), str(result)
