"""cdynamo.grad and value_and_grad of NumPy functions, against differences and known derivatives."""

import math

import numpy as np
import pytest

import cdynamo


def slope(fn, args, place=0, step=1e-6):
    x = np.asarray(args[place], dtype=float)
    result = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        above, below = x.copy(), x.copy()
        above[index] += step
        below[index] -= step
        given = [list(args), list(args)]
        given[0][place], given[1][place] = above, below
        result[index] = (fn(*given[0]) - fn(*given[1])) / (2 * step)
    return result


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def softmax_regression(w, x, y):
    z = x @ w
    z = z - z.max(axis=1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    return -(log_p * y).sum() / len(x)


def loops(x, n):
    total = 0.0
    for i in range(n):
        if i % 2:
            total = total + np.sin(x * i).sum()
        else:
            total = total * 0.5 + (x**2).mean()
    return total


@pytest.mark.parametrize("fn, args", [(rosenbrock, (np.linspace(-1, 2, 7),)), (loops, (np.linspace(0.1, 1, 5), 6))])
def test_gradient_is_the_slope(fn, args):
    np.testing.assert_allclose(cdynamo.grad(fn)(*args), slope(fn, args), rtol=1e-6, atol=1e-7)


def test_several_arguments():
    rng = np.random.default_rng(0)
    args = (rng.standard_normal((4, 3)), rng.standard_normal((8, 4)), np.eye(3)[rng.integers(0, 3, 8)])
    value, (dw, dx) = cdynamo.value_and_grad(softmax_regression, argnums=(0, 1))(*args)
    assert value == pytest.approx(softmax_regression(*args))
    np.testing.assert_allclose(dw, slope(softmax_regression, args, 0), atol=1e-8)
    np.testing.assert_allclose(dx, slope(softmax_regression, args, 1), atol=1e-8)


def test_of_floats_and_of_higher_order():
    def f(x):
        return np.exp(x) * np.sin(x)

    assert cdynamo.grad(f)(0.7) == pytest.approx(math.exp(0.7) * (math.sin(0.7) + math.cos(0.7)))
    second = cdynamo.grad(cdynamo.grad(f))
    assert second(0.7) == pytest.approx(2 * math.exp(0.7) * math.cos(0.7))
    third = cdynamo.grad(second)
    assert third(0.3) == pytest.approx(2 * math.exp(0.3) * (math.cos(0.3) - math.sin(0.3)))


def test_inner_variable_is_not_the_outer_one():
    # d/dx (x * d/dy (x * y)) = d/dx x**2
    def outer(x):
        return x * cdynamo.grad(lambda y: x * y)(x)

    assert cdynamo.grad(outer)(3.0) == pytest.approx(6.0)


def test_one_graph_and_no_recompilation():
    fn = cdynamo.grad(rosenbrock)
    fn(np.ones(5))
    before = cdynamo.counters()
    for size in (5, 5, 5):
        fn(np.full(size, 0.5))
    after = cdynamo.counters()
    assert after["graphs_compiled"] == before["graphs_compiled"]
    assert after["graph_breaks"] == before["graph_breaks"]


def test_what_it_does_not_depend_on_is_zero():
    assert cdynamo.grad(lambda x, y: (x * 2).sum(), argnums=1)(np.ones(2), np.ones(3)).tolist() == [0, 0, 0]


def test_float32_stays_float32():
    result = cdynamo.grad(lambda x: (x * x).sum())(np.ones(3, np.float32))
    assert result.dtype == np.float32 and result.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: cdynamo.grad(np.sum)(np.arange(3)), TypeError, "argument 0 is int64"),
        (lambda: cdynamo.grad(lambda x: x * 2)(np.ones(3)), TypeError, "scalar result"),
        (lambda: cdynamo.grad(lambda x: x.sum(), argnums=1)(np.ones(3)), IndexError, "argument 1"),
        (lambda: cdynamo.grad(lambda x: x.sum(), argnums=-1), ValueError, "argnums"),
    ],
)
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_function_that_breaks_says_so():
    def f(x):
        return x.sum() * float(x.max())

    with pytest.raises(cdynamo.GraphBreakError, match="one graph"):
        cdynamo.grad(f)(np.ones(3))


def test_an_optimized_function_inside_another_is_inlined():
    inner = cdynamo.optimize(lambda x: x * 2)
    outer = cdynamo.optimize(lambda x: inner(x) + 1)
    before = cdynamo.counters()
    assert outer(np.ones(2)).tolist() == [3, 3]
    after = cdynamo.counters()
    assert after["graphs_compiled"] - before["graphs_compiled"] == 1
    assert after["graph_breaks"] == before["graph_breaks"]


def test_many_functions():
    """Each has entries of its own: no limit of recompilations is shared."""
    for i in range(20):
        f = eval(f"lambda x: (np.sin(x) * {i}).sum()")
        gradient = cdynamo.grad(f)
        assert np.allclose(gradient(np.ones(3)), np.cos(1) * i)
        assert np.allclose(cdynamo.grad(lambda x: gradient(x)[0])(np.ones(3)), [-np.sin(1) * i, 0, 0])


def test_the_same_function_is_compiled_once(counts):
    f = lambda x: (x * x).sum()
    for _ in range(5):
        cdynamo.grad(f)(np.ones(3))
    assert counts.graphs_compiled == 1
