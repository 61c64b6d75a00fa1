"""cdynamo.grad of functions that branch on array elements: each call goes its own way, and gets that way's slope."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_grad import slope

import cdynamo


def two_ways(x):
    if x.sum() > 1:
        return (x * 2).sum()
    return (x * 3).sum()


def each_element(x):
    total = 0.0
    for v in x:
        total = total + (v * v if v > 0 else -3 * v)
    return total


def halve_until_small(x):
    count = 0
    while (x * x).sum() > 0.1:
        x, count = x * 0.5, count + 1
    return (x * count).sum()


def square_root_by_newton(x):
    root = x[0] * 1.0
    while abs(root * root - x[0]) > 1e-12:
        root = 0.5 * (root + x[0] / root)
    return root


def logic(x):
    if not np.any(x > 0) or x[0] == 0:
        return x.sum()
    return (x**2).sum() if np.all(x > -1) and x.mean() < 5 else np.sin(x).sum()


def extremes(x):
    return max(x[0], x[1]) * 2 + min(x[0] * x[1], x[2])


def inner_derivative(x):
    inner = cdynamo.grad(lambda y: (y**3).sum() if y.sum() > 0 else (y**2).sum())(x)
    return (inner * inner).sum() if inner[0] > 1 else inner.sum()


WAYS = [(1.0, 2.0, 3.0), (-1.0, 2.0, -3.0), (0.1, 0.11, 0.12), (7.0, 1.0, 5.0), (1.0, 2.0, 3.0)]


@pytest.mark.parametrize(
    "fn", [two_ways, each_element, halve_until_small, logic, extremes, inner_derivative], ids=lambda fn: fn.__name__
)
def test_each_call_goes_its_way(fn):
    compiled = cdynamo.value_and_grad(fn)
    for x in map(np.array, WAYS):
        value, gradient = compiled(x)
        assert value == pytest.approx(fn(x))
        np.testing.assert_allclose(gradient, slope(fn, (x,)), rtol=1e-5, atol=1e-6)


def test_number_of_iterations():
    compiled = cdynamo.grad(square_root_by_newton)
    for x in (2.0, 9.0, 100.0, 2.0):
        np.testing.assert_allclose(compiled(np.array([x])), [0.5 / x**0.5], rtol=1e-9)


def test_a_known_way_compiles_nothing_new():
    compiled = cdynamo.grad(two_ways)
    compiled(np.ones(3)), compiled(-np.ones(3))
    before = cdynamo.counters()["graphs_compiled"]
    for sign in (1, 1, -1, 1, -1, -1):
        np.testing.assert_array_equal(compiled(sign * np.ones(3)), np.full(3, 2.0 if sign > 0 else 3.0))
    assert cdynamo.counters()["graphs_compiled"] == before


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.lists(st.lists(st.floats(-3, 3), min_size=4, max_size=4), min_size=1, max_size=6))
def test_more_ways_than_are_kept(rows):
    def fn(x):
        total = x.sum()
        for k in range(len(x)):
            for edge in (-1.0, 0.0, 1.0):
                if x[k] > edge:
                    total = total + x[k] * (k + edge)
        return total

    def exact(x):
        return np.array([1 + sum(k + edge for edge in (-1.0, 0.0, 1.0) if v > edge) for k, v in enumerate(x)])

    compiled = cdynamo.grad(fn)
    for row in rows:
        np.testing.assert_allclose(compiled(np.array(row)), exact(row), atol=1e-12)


def test_higher_orders_and_floats():
    second = cdynamo.grad(cdynamo.grad(lambda x: x**3 if x > 0 else x**4))
    assert [second(x) for x in (2.0, -2.0, 3.0, 0.5, -1.0)] == pytest.approx([12.0, 48.0, 18.0, 3.0, 12.0])


def test_errors_are_the_program_s():
    def refuses(x):
        if x.sum() < 0:
            raise ValueError("negative")
        return x.sum()

    compiled = cdynamo.grad(refuses)
    np.testing.assert_array_equal(compiled(np.ones(2)), np.ones(2))
    with pytest.raises(ValueError, match="negative"):
        compiled(-np.ones(2))
    with pytest.raises(ValueError, match="ambiguous"):
        cdynamo.grad(lambda x: x.sum() if x > 0 else -x.sum())(np.ones(2))


def test_an_index_that_only_the_other_way_reads():
    def fn(x, at):
        if x[0] > 0:
            return x[at].sum()
        return x.sum()

    compiled = cdynamo.grad(fn)
    np.testing.assert_array_equal(compiled(np.ones(3), np.array([0, 2])), [1, 0, 1])
    np.testing.assert_array_equal(compiled(-np.ones(3), np.array([7, 9])), [1, 1, 1])
    with pytest.raises(IndexError):
        compiled(np.ones(3), np.array([7, 9]))


def test_effects_cannot_be_taken_back():
    seen = np.zeros(1)

    def fn(x):
        if x.sum() > 0:
            seen[0] += 1
        return x.sum()

    with pytest.raises(cdynamo.GraphBreakError, match="one graph"):
        cdynamo.grad(fn)(np.ones(2))


def test_functions_are_counted_on_their_own():
    """The limit of entries is one function's, not that of all functions that are differentiated."""
    for k in range(12):
        scope = {"np": np}
        exec(f"def f(x): return (np.sin(x) * {k}).sum()", scope)
        np.testing.assert_allclose(cdynamo.grad(scope["f"])(np.ones(3)), np.full(3, k * np.cos(1)))
    many = cdynamo.grad(lambda x: (x * x).sum())
    for rank in range(1, 12):
        np.testing.assert_array_equal(many(np.ones((2,) * rank)), np.full((2,) * rank, 2.0))


def test_tensors():
    torch = pytest.importorskip("torch")
    compiled = cdynamo.grad(two_ways)
    for sign, expected in ((1, 2.0), (-1, 3.0), (1, 2.0)):
        assert compiled(sign * torch.ones(3)).tolist() == [expected] * 3


def test_random_numbers_before_a_branch_are_refused():
    """To see which way a call goes they would be drawn twice."""
    torch = pytest.importorskip("torch")

    def noisy(draw):
        def fn(x):
            noise = draw(x)
            return (x * noise).sum() if x.sum() > 0 else x.sum()

        return fn

    for draw in (lambda x: torch.rand(3), lambda x: torch.dropout(x, 0.5, True), lambda x: torch.empty(3).normal_()):
        with pytest.raises(cdynamo.GraphBreakError):
            cdynamo.grad(noisy(draw))(torch.ones(3))
