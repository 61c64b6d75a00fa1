"""What libraries (pandas, SciPy, scikit-learn, nflows) do and small programs rarely do."""

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
