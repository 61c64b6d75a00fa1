"""The example's NumPy programs: one graph each, NumPy's results."""

import numpy as np
import pytest
from numpy_programs import programs

import cdynamo


def flat(value):
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in flat(part)]
    return [value]


@pytest.mark.parametrize(
    "name, function, args", list(programs()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_program(name, function, args, counts):
    expected = function(*args)
    compiled = cdynamo.optimize(function)
    for _ in range(2):
        actual = compiled(*args)
        assert [type(x) for x in flat(actual)] == [type(x) for x in flat(expected)]
        for a, b in zip(flat(actual), flat(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
            assert np.asarray(a).dtype == np.asarray(b).dtype
    assert (counts.graphs_compiled, counts.graph_breaks) == (1, 0)


@pytest.mark.parametrize("exponent", [1.5, -1.5, 4, 2.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers(exponent, dtype):
    x = np.array([0.0, -0.0, 1.0, 0.3, 7.7, 1e30, 1e-30, np.inf, -np.inf, np.nan, -2.0, 3e38], dtype)
    with np.errstate(all="ignore"):
        expected = x**exponent
    actual = cdynamo.optimize(lambda x: x**exponent)(x)
    np.testing.assert_allclose(actual, expected, rtol=4 * np.finfo(dtype).eps)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual[number]), np.signbit(expected[number]))
