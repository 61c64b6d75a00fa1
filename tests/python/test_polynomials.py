"""numpy.poly1d in compiled functions: its classes are inlined, coefficients may be what only the graph knows."""

import numpy as np
import numpy_check
import pytest

import cdynamo

P = np.poly1d([1.0, 2, 3])
PROGRAMS = {
    "made of numbers": lambda x: np.poly1d([1, 2, 3])(x) * 2,
    "made of an array": lambda x: np.poly1d(x)(2.0),
    "zeros in front": lambda x: np.poly1d([0, 0, 1, 2]).coeffs * x.sum(),
    "nothing but zeros": lambda x: np.poly1d([0, 0])(x),
    "roots": lambda x: np.poly1d([1, 2], True)(x),
    "fit": lambda x: np.poly1d(np.polyfit(np.arange(len(x)), x, 1))(x),
    "derivative and integral": lambda x: (P.deriv()(x), P.integ()(x)),
    "arithmetic": lambda x: ((P + 1)(x), (P * P)(x), (P - x[0])(x), (P**2)(x), np.polymul(x, [1.0, 2])),
    "came in": lambda x: (P(x), P.coeffs[0] * x + P.order + P[1], np.polyval(P, x)),
    "as an array": lambda x: (np.asarray(P) * x.sum(), np.array(P, ndmin=2) + x[0]),
    "trimmed": lambda x: (np.trim_zeros(np.array([0, 0, 1, 2, 0])) * x[0], np.trim_zeros(x, "b")),
}


@pytest.mark.native
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_graph(program):
    f = PROGRAMS[program]
    compiled = cdynamo.optimize(f)
    before = cdynamo.counters()["graph_breaks"]
    for size in (5, 5, 6):
        x = np.random.default_rng(size).random(size)
        numpy_check.assert_same(compiled(x), f(x), rtol=1e-9, atol=1e-12)
    assert cdynamo.counters()["graph_breaks"] == before


@pytest.mark.parametrize(
    "program", [lambda x: np.poly1d(x)(x), lambda x: np.trim_zeros(x) * 2, lambda x: np.poly1d(x).coeffs]
)
def test_zeros_that_only_the_graph_knows(program):
    compiled = cdynamo.optimize(program)
    for x in (
        [1.0, 2, 3],
        [0.0, 2, 3],
        [4.0, 5, 6],
        [0.0, 0, 3],
        [1.0, 2, 0],
        [0.0, 0, 0],
        [-0.0, np.nan, 1],
        [7.0, 8, 9],
    ):
        numpy_check.assert_same(compiled(np.array(x)), program(np.array(x)))


def test_a_polynomial_leaves():
    def f(x):
        return np.poly1d(x * 2, variable="y")

    x = np.array([1.0, 2, 3])
    got, expected = cdynamo.optimize(f)(x), f(x)
    assert type(got) is np.poly1d and got == expected and got.variable == "y" and str(got) == str(expected)


def test_other_arrays_are_numpys():
    def f(x, trim):
        return np.trim_zeros(x, trim)

    compiled = cdynamo.optimize(f)
    assert compiled([0, 1, 0], "f") == f([0, 1, 0], "f")
    for trim in ("FB", "b", "x", ""):
        outcomes = []
        for each in (compiled, f):
            try:
                outcomes.append(each(np.array([0, 1, 0]), trim).tolist())
            except ValueError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
