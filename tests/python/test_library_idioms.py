"""What libraries (pandas, SciPy, scikit-learn, nflows) do and small programs rarely do."""

import datetime
import warnings

import numpy as np
import pytest

import cdynamo

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def nothing_runs_in_python():
    """A frame that cannot be compiled is told in a warning of the log's."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_a_write_to_what_a_mask_selects(caplog):
    def f(a, m):
        a[m] += np.random.normal(0, 0.1, m.sum())
        return a

    compiled = cdynamo.optimize(f)
    for selected in (0, 1, 2, 0):
        m = np.zeros((3, 4), bool)
        m.flat[:selected] = True
        results = []
        for call in (f, compiled):
            np.random.seed(0)
            results.append(call(np.ones((3, 4)), m))
        np.testing.assert_array_equal(*results)
    assert "runs in Python" not in caplog.text


def test_views_that_are_written_to_before_rows_are_chosen(caplog):
    def f(q, m):
        a, b = q[..., :4], q[..., 4:]
        a /= 2.0
        b /= 2.0
        y = a[m]
        cdynamo.graph_break()
        return y.sum() + b.sum() + a.sum()

    compiled = cdynamo.optimize(f)
    for n in (8, 8, 9):
        q, m = torch.arange(8.0 * n).reshape(n, 8), torch.arange(n) % 3 > 0
        torch.testing.assert_close(compiled(q.clone(), m), f(q.clone(), m))
    assert "runs in Python" not in caplog.text


def test_a_view_that_is_written_to_behind_a_break_in_a_loop():
    """Its pieces cannot be captured in this call, nor in the next."""

    def f(rng, n, turns):
        pb = np.ones((n, 3))
        g = pb[pb[:, 0].argmin()]
        for _ in range(turns):
            x = rng.random((n, 3)) + g
            pb[:2] = x[:2]
            g = pb[x[:, 0].argmin()]
        return x

    compiled = cdynamo.optimize(f)
    for _ in range(40):
        compiled(np.random.default_rng(0), 6, 5)
    before = cdynamo.counters()["frames_seen"]
    for _ in range(10):
        np.testing.assert_array_equal(compiled(np.random.default_rng(0), 6, 5), f(np.random.default_rng(0), 6, 5))
    assert cdynamo.counters()["frames_seen"] - before <= 2


def test_times_behind_a_break():
    def f(x):
        start = datetime.datetime.now(datetime.timezone.utc)
        y = x * 2
        return y + 1, datetime.datetime.now(datetime.timezone.utc) - start

    compiled = cdynamo.optimize(f)
    before = cdynamo.counters()["graphs_compiled"]
    for _ in range(6):
        y, elapsed = compiled(np.ones(3))
        np.testing.assert_array_equal(y, np.full(3, 3.0))
        assert datetime.timedelta() <= elapsed < datetime.timedelta(seconds=60)
    assert cdynamo.counters()["graphs_compiled"] - before <= 2


@pytest.mark.parametrize("shapes", [((3,), (4,)), ((2, 3), (4,)), ((2,), (3, 4)), ((0,), (3,)), ((), (3,))], ids=str)
def test_outer_products_of_ufuncs(shapes):
    def f(a, b):
        return np.multiply.outer(a, b) + 1, np.subtract.outer(b, a), np.less.outer(a, b)

    a, b = (np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape) for shape in shapes)
    for got, expected in zip(cdynamo.optimize(f)(a, b), f(a, b), strict=True):
        np.testing.assert_array_equal(got, expected)
        assert type(got) is type(expected) and got.dtype == expected.dtype


def test_attributes_of_routines_that_f2py_made():
    """Their class has no attributes, but a slot that finds them."""
    lapack = pytest.importorskip("scipy.linalg.lapack")

    def f(routine, x):
        return hasattr(routine, "typecode"), getattr(routine, "__doc__", None) is None, hasattr(routine, "other"), x + 1

    assert cdynamo.optimize(f)(lapack.dgetrf, 1) == f(lapack.dgetrf, 1)


def test_ufuncs_of_scipy():
    special = pytest.importorskip("scipy.special")

    def f(x):
        y = special.erf(x) + special.gammaln(x + 1) * special.xlogy(x, 2.0)
        return y, special.expit(x.astype(np.float32)), special.gamma(x[0, 0]), special.jv(1, x), special.erf(x + 1j)

    compiled = cdynamo.optimize(f, fullgraph=True)
    for n in (3, 4, 5):
        x = np.linspace(0.1, 2, 2 * n).reshape(n, 2)
        for got, expected in zip(compiled(x), f(x), strict=True):
            assert (type(got), got.dtype, got.shape) == (type(expected), expected.dtype, expected.shape)
            np.testing.assert_allclose(got, expected, rtol=1e-12)
