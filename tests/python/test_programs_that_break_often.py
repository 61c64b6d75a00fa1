"""Programs with many graph breaks settle: after two calls nothing more is compiled."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import cdynamo


def assert_same(got, expected):
    if isinstance(expected, (tuple, list)):
        assert type(got) is type(expected) and len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert type(got) is type(expected) and got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-12)
    else:
        assert got == expected


def settles(fn, calls, compiled_by=2):
    """Each call gives what Python gives; none after the first `compiled_by` compiles anything. Returns the number of breaks."""
    cdynamo.reset()
    at_first = cdynamo.counters()
    compiled = cdynamo.optimize(fn)
    for number, args in enumerate(calls):
        before = cdynamo.counters()
        assert_same(compiled(*args), fn(*args))
        after = cdynamo.counters()
        if number >= compiled_by:
            assert after["frames_seen"] == before["frames_seen"], f"call {number} is compiled"
    return cdynamo.counters()["graph_breaks"] - at_first["graph_breaks"]


# ---- filters of warnings: each catch_warnings and simplefilter makes objects of its own


def ignores(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x - x.mean()
        cdynamo.graph_break()
        warnings.warn("not shown", stacklevel=1)
        y = y / y.std()
        cdynamo.graph_break()
    cdynamo.graph_break()
    return y * 2


def records(x):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        y = x + 1
        cdynamo.graph_break()
        warnings.warn("a", stacklevel=1)
        y = y * 2
        cdynamo.graph_break()
        warnings.warn("b", DeprecationWarning, stacklevel=1)
    return y, [(str(warning.message), warning.category) for warning in shown]


def raises(x):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="bad")
        cdynamo.graph_break()
        try:
            warnings.warn("bad news", stacklevel=1)
        except UserWarning as error:
            return x + len(str(error))


@pytest.mark.parametrize("fn", [ignores, records, raises])
def test_filters_of_warnings(fn):
    filters = list(warnings.filters)
    settles(fn, [(np.arange(4.0) + i,) for i in range(6)])
    assert warnings.filters == filters


def test_a_recorded_warning_goes_where_it_is_recorded_now():
    def fn(x):
        y = x + 1
        cdynamo.graph_break()
        warnings.warn("a", stacklevel=1)
        return y

    compiled = cdynamo.optimize(fn)
    for kind in ["always", "ignore", "always", "error", "always"]:
        counts = []
        for run in (fn, compiled):
            with warnings.catch_warnings(record=True) as shown:
                warnings.simplefilter(kind)
                try:
                    run(np.arange(3.0))
                except UserWarning:
                    shown.append("raised")
                counts.append([str(getattr(warning, "message", warning)) for warning in shown])
        assert counts[0] == counts[1]


# ---- NumPy's generators: each call is Python's, at its place


def by_generator(x):
    rng = np.random.default_rng(x.size)
    n = x.shape[0]
    y = x + rng.normal(size=n)
    picked = rng.integers(0, n, size=3)
    return y[rng.permutation(n)] * rng.random() + y[picked].sum(), rng.random()


def by_module(x):
    np.random.seed(x.size)
    n = x.shape[0]
    y = x + np.random.normal(size=n)
    return y[np.random.permutation(n)] * np.random.rand() + np.random.randint(0, n), np.random.rand()


@pytest.mark.parametrize(("fn", "draws"), [(by_generator, 6), (by_module, 6)])
def test_generators_of_numpy(fn, draws):
    assert settles(fn, [(np.arange(float(size)),) for size in range(8, 16)]) <= draws


def test_the_state_of_a_generator_is_python_s():
    def fn(x, rng):
        return x * rng.random() + rng.standard_normal(x.shape) - rng.choice(x)

    compiled = cdynamo.optimize(fn)
    one, other = np.random.default_rng(7), np.random.default_rng(7)
    for size in range(3, 9):
        x = np.arange(float(size))
        assert_same(compiled(x, one), fn(x, other))
    assert one.bit_generator.state == other.bit_generator.state


# ---- functions that break in many places and compute little are left to Python; what they call is not


class Estimator:
    """Validates as estimators do: much Python around few operators."""

    def __init__(self, alpha):
        self.alpha = alpha

    def fit(self, x, y):
        x = np.asarray(x, dtype=float)
        for_fit = vars(self)
        cdynamo.graph_break()
        if "a" in for_fit:
            raise AttributeError("a")
        cdynamo.graph_break()
        if "b" in for_fit:
            raise AttributeError("b")
        cdynamo.graph_break()
        kind = type(self).__name__
        cdynamo.graph_break()
        if kind != "Estimator":
            raise AttributeError(kind)
        cdynamo.graph_break()
        if self.alpha < 0:
            raise ValueError("alpha")
        cdynamo.graph_break()
        self.coef = self.solve(x, y)
        return kind

    def solve(self, x, y):
        return x.T @ y / self.alpha


def test_a_method_that_only_validates_is_left_to_python():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    ours, expected = Estimator(0.5), Estimator(0.5)
    cdynamo.reset()
    compiled = cdynamo.optimize(Estimator.fit)
    for _ in range(8):
        before = cdynamo.counters()
        assert compiled(ours, x, y) == expected.fit(x, y)
        assert_same(ours.coef, expected.coef)
    after = cdynamo.counters()
    assert after["frames_seen"] == before["frames_seen"]
    assert after["cache_hits"] - before["cache_hits"] <= 2  # solve, and no piece of fit


def test_a_function_with_breaks_that_computes_much_stays_compiled():
    def fn(x):
        cdynamo.graph_break()
        cdynamo.graph_break()
        cdynamo.graph_break()
        cdynamo.graph_break()
        for i in range(40):
            x = x * 0.5 + i
        return x

    compiled = cdynamo.optimize(fn)
    for _ in range(4):
        before = cdynamo.counters()
        assert_same(compiled(np.ones(4)), fn(np.ones(4)))
    assert cdynamo.counters()["cache_hits"] - before["cache_hits"] == 5


def test_a_function_that_seldom_fits_what_it_was_compiled_for_is_left_to_python():
    def fn(x, kind):
        return x + len(kind)

    compiled = cdynamo.optimize(fn)
    for i in range(400):
        before = cdynamo.counters()
        assert_same(compiled(np.ones(2), "a" * i), fn(np.ones(2), "a" * i))
    assert cdynamo.counters() == before


def test_a_function_with_many_large_graphs_keeps_them():
    def fn(x, kind):
        for i in range(30):
            x = x * 0.5 + i
        return x + len(kind)

    compiled = cdynamo.optimize(fn)
    for i in range(400):
        before = cdynamo.counters()
        assert_same(compiled(np.ones(2), "a" * (i % 6)), fn(np.ones(2), "a" * (i % 6)))
    assert cdynamo.counters()["cache_hits"] - before["cache_hits"] == 1


# ---- attributes of a thread


def test_what_a_thread_has_of_its_own():
    local = threading.local()

    def fn(x):
        if not hasattr(local, "config"):
            local.config = {"scale": 2}
        local.calls = getattr(local, "calls", 0) + 1
        return x * local.config["scale"] + local.calls

    cdynamo.reset()
    compiled = cdynamo.optimize(fn, fullgraph=True)
    results = []

    def run(scale):
        if scale:
            local.config = {"scale": scale}
        results.append([compiled(np.ones(2)).tolist() for _ in range(3)] + [dict(vars(local))])

    for scale in (None, 3, None):
        thread = threading.Thread(target=run, args=(scale,))
        thread.start()
        thread.join()
    assert results == [
        [[2 * (scale or 2) / 2 + i] * 2 for i in (1, 2, 3)] + [{"config": {"scale": scale or 2}, "calls": 3}]
        for scale in (None, 3, None)
    ]
    assert not hasattr(local, "config")


# ---- arrays that NumPy makes of arrays, and what it tells of them


def conversions(x):
    same = np.asarray(x, dtype=x.dtype, order="C", copy=False)
    column = np.asarray(x.reshape(2, -1).T, order="C")
    return (
        np.array(x, dtype=np.float32, copy=True, order="C") * 2,
        np.array(x, copy=None, ndmin=1, subok=True) is x,
        same is x,
        column,
        column.flags.c_contiguous,
        x.reshape(2, -1).T.flags["F_CONTIGUOUS"],
        x.device,
        np.result_type(x, np.float32),
    )


def backward(x):
    return x[::-1], x[::-2] + 1, x.reshape(2, -1)[:, ::-1], x[::-3].sum()


def numbers_as_arrays(x):
    return np.atleast_1d(x.shape[0]), np.atleast_2d(x.shape[0] * 0.5), np.atleast_1d(x.sum())


def stacked(x):
    c, s = np.cos(x[0]), np.sin(x[0])
    return np.array([[c, -s], [s, c]]), np.array([x[0], 1.5, 2]), np.asarray([x, x * 2]), np.array([[x[1], 1], (2, c)])


@pytest.mark.parametrize("fn", [conversions, backward, numbers_as_arrays, stacked])
def test_captured_whole_for_all_sizes(fn):
    cdynamo.reset()
    compiled = cdynamo.optimize(fn, backend="native", fullgraph=True)
    before = cdynamo.counters()["graphs_compiled"]
    for size in (4, 6, 8, 10, 16):
        assert_same(compiled(np.arange(float(size))), fn(np.arange(float(size))))
    assert cdynamo.counters()["graphs_compiled"] - before <= 2


def distance(a, b):
    d = np.zeros((len(a) + 1, len(b) + 1), int)
    d[:, 0], d[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
    return d[-1, -1]


def smoothed(x, steps):
    for _ in range(steps):
        x = 0.5 * x + 0.25 * (np.roll(x, 1) + np.roll(x, -1))
        cdynamo.graph_break()
    return x


@pytest.mark.native
def test_a_loop_of_which_each_turn_costs_more_than_it_computes_is_left_to_python(counts):
    """One break, in a turn that reads and writes single numbers; `smoothed` computes on arrays."""
    a, b = np.random.default_rng(0).integers(0, 4, (2, 50))
    compiled = cdynamo.optimize(distance)
    for _ in range(3):
        assert_same(compiled(a, b), distance(a, b))
    hits = cdynamo.counters()["cache_hits"]
    assert_same(compiled(a, b), distance(a, b))
    assert cdynamo.counters()["cache_hits"] == hits

    x = np.random.default_rng(0).random(200)
    compiled = cdynamo.optimize(smoothed)
    for _ in range(3):
        assert_same(compiled(x, 200), smoothed(x, 200))
    hits = cdynamo.counters()["cache_hits"]
    assert_same(compiled(x, 200), smoothed(x, 200))
    assert cdynamo.counters()["cache_hits"] > hits + 100
