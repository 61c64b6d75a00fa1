"""Views at given strides, of PyTorch and NumPy: what they show, where they lie, and writes to either side."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cdynamo  # noqa: E402

as_strided = np.lib.stride_tricks.as_strided


def tensor():
    return torch.arange(12.0).reshape(3, 4)


def looks(value):
    """Of a tensor or array what it shows and where it lies."""
    if isinstance(value, np.ndarray):
        return value.tolist(), value.strides, value.flags.writeable
    return value.tolist(), value.stride(), value.storage_offset(), value._is_view()


def same_as_eager(f, make, **options):
    """Results and argument, in two calls; the results see what is written to the argument later."""
    fast = cdynamo.optimize(f, **options)
    for _ in range(2):
        ends = []
        for run in (f, fast):
            x = make()
            results = run(x)
            results = [*results] if isinstance(results, tuple) else [results]
            seen = [looks(value) for value in [x, *results]]
            x += 1
            ends.append((seen, [value.tolist() for value in results]))
        assert ends[1] == ends[0]


VIEWS = {
    "rows": lambda x: x.as_strided((2, 3), (4, 1)),
    "columns": lambda x: torch.as_strided(x, (3, 2), (1, 4)),
    "windows": lambda x: x.as_strided((5, 4), (2, 1)),
    "windows that are computed with": lambda x: x.as_strided((5, 4), (2, 1)).sum(1),
    "dims out of order": lambda x: x.as_strided((2, 2, 2), (2, 6, 1)),
    "expanded": lambda x: x.as_strided((2, 3, 2), (0, 1, 3)),
    "dims of size 1": lambda x: x.as_strided((1, 3, 1), (7, 2, 5)),
    "a number": lambda x: x.as_strided((), ()),
    "of a part": lambda x: x[1:].as_strided((3, 2), (2, 2)) * 2,
    "of a tensor in another order": lambda x: x.t().as_strided((2, 2), (4, 1)),
    "of what is not row-major": lambda x: (x.t()[:, None] * 2).as_strided((3, 1, 2), (3, 1, 2)),
    "of a new tensor": lambda x: (x * 2).as_strided((2, 2), (1, 3), 4),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_at_strides(name):
    same_as_eager(VIEWS[name], tensor, fullgraph=True)


def written_view(size, stride):
    def f(x):
        y = x * 1
        view = y.as_strided(size, stride)
        view.mul_(10)
        y.add_(1)
        return view * 2, y

    return f


def write_to_the_argument(x):
    view = x.as_strided((2, 2), (1, 5))
    x.mul_(3)
    view.add_(1)
    return view, view + x.sum()


def write_through_windows(x):
    x.unfold(1, 1, 2).add_(1)
    x.unfold(0, 3, 1).mul_(2)
    return x * 2


WRITES = {
    "rows": written_view((2, 3), (4, 1)),
    "columns": written_view((4, 3), (1, 4)),
    "whole": written_view((3, 4), (4, 1)),
    "gaps": written_view((2, 2, 2), (6, 3, 2)),
    "one row": written_view((1, 3), (2, 1)),
    "argument": write_to_the_argument,
    "unfold": write_through_windows,
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_through_views_at_strides(name):
    same_as_eager(WRITES[name], tensor, fullgraph=True)


LEFT_TO_PYTHON = {
    "beyond its elements": lambda x: x[:1].as_strided((3, 4), (4, 1)) * 2,
    "with gaps": lambda x: x[:, ::2].as_strided((2, 2), (4, 2)) * 2,
    "into the argument's storage": lambda x: x[1:].as_strided((2, 2), (4, 1), 1) * 2,
    "write through windows that overlap": lambda x: x.as_strided((5, 4), (2, 1)).add_(1),
}


@pytest.mark.parametrize("name", LEFT_TO_PYTHON)
def test_views_at_strides_that_are_left_to_python(name):
    same_as_eager(LEFT_TO_PYTHON[name], tensor)


GRADIENTS = {
    "windows": lambda x: (x.as_strided((5, 4), (2, 1)) * torch.arange(20.0).reshape(5, 4)).sum(),
    "in another order": lambda x: ((x * 2).t().as_strided((5, 4), (2, 1)) * torch.arange(20.0).reshape(5, 4)).sum(),
    "written": lambda x: ((y := x * 1).as_strided((2, 3), (4, 1)).mul_(3), (y * y).sum())[1],
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_views_at_strides(name):
    gradients = []
    for run in (GRADIENTS[name], cdynamo.optimize(GRADIENTS[name], fullgraph=True)):
        x = tensor().requires_grad_()
        run(x).backward()
        gradients.append((x.grad.tolist(), x.grad.stride()))
    assert gradients[1] == gradients[0]


def test_strides_that_change(counts):
    def f(x):
        rows, columns = x.shape
        return x.as_strided((rows - 1, 2, columns), (columns, columns, 1)).sum(1)

    fast = cdynamo.optimize(f, fullgraph=True)
    for rows in (3, 4, 5, 6):
        x = torch.rand(rows, 3 + rows)
        torch.testing.assert_close(fast(x), f(x))
    assert counts.graphs_compiled == 2


def array():
    return np.arange(12.0).reshape(3, 4)


def numpy_writes(a):
    b = a * 1
    view = as_strided(b, (2, 2), (32, 8))
    view += 1
    b *= 2
    return view * 1, b


ARRAYS = {
    "rows": lambda a: as_strided(a, (2, 3), (32, 8)),
    "windows": lambda a: as_strided(a, (5, 4), (16, 8)),
    "by its own strides": lambda a: as_strided(a, (2, 2, 4), (a.strides[0], *a.strides)) + 1,
    "shape alone": lambda a: as_strided(a, shape=(2, 3)),
    "expanded": lambda a: as_strided(a, (3, 2), (0, 8)) * 2,
    "strides alone": lambda a: as_strided(a, strides=(8, 8)) * 2,
    "writes": numpy_writes,
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_at_strides(name):
    same_as_eager(ARRAYS[name], array, fullgraph=True)


ARRAYS_LEFT_TO_NUMPY = {
    "backwards": lambda a: as_strided(a[::-1], (2, 2), (-32, 8)) * 1,
    "within an element": lambda a: np.zeros(as_strided(a, (2, 2), (32, 4)).shape),
    "read-only": lambda a: as_strided(a, (5, 2), (8, 8), writeable=False),
    "beyond its elements": lambda a: as_strided(a[:1], (2, 3), (32, 8)) * 2,
}


def test_sizes_of_an_array_are_a_tuple():
    with pytest.raises(TypeError, match="not iterable"):
        cdynamo.optimize(lambda a: as_strided(a, 3, 8) * 2)(array())


@pytest.mark.parametrize("name", ARRAYS_LEFT_TO_NUMPY)
def test_arrays_at_strides_that_are_left_to_numpy(name):
    same_as_eager(ARRAYS_LEFT_TO_NUMPY[name], array)


@pytest.mark.native
@pytest.mark.parametrize("write", [lambda w: w.add_(1), lambda w: w.__setitem__(1, 0), lambda w: w.t().mul_(2)])
def test_a_write_through_windows_that_overlap_breaks_at_its_line(write, counts):
    """What stands around it is compiled."""

    def f(x):
        y = x * 2 - 1
        write(y.reshape(-1).as_strided((5, 4), (2, 1)))
        return (y + 1) * 3

    same_as_eager(f, tensor)
    assert counts.graph_breaks == 1
