"""Programs with many graph breaks settle: after two calls nothing more is compiled."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import cdynamo


def settles(fn, calls, compiled_by=2):
    """Each call gives what Python gives; none after the first `compiled_by` compiles anything."""
    cdynamo.reset()
    compiled = cdynamo.optimize(fn)
    for number, args in enumerate(calls):
        before = cdynamo.counters()
        got, expected = compiled(*args), fn(*args)
        np.testing.assert_equal(got, expected)
        after = cdynamo.counters()
        if number >= compiled_by:
            assert after["frames_seen"] == before["frames_seen"], f"call {number} is compiled"
    return cdynamo.counters()


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
    counts = settles(fn, [(np.arange(float(size)),) for size in range(8, 16)])
    assert counts["graph_breaks"] <= draws


def test_the_state_of_a_generator_is_python_s():
    def fn(x, rng):
        return x * rng.random() + rng.standard_normal(x.shape) - rng.choice(x)

    compiled = cdynamo.optimize(fn)
    one, other = np.random.default_rng(7), np.random.default_rng(7)
    for size in range(3, 9):
        x = np.arange(float(size))
        np.testing.assert_array_equal(compiled(x, one), fn(x, other))
    assert one.bit_generator.state == other.bit_generator.state
