"""What compiled code calls for NumPy's own objects, and NumPy's functions whose Python is not captured."""

from cdynamo.polyfills.rules import not_captured, sums_at


def read_only(array):
    """`array` itself, not writeable any more: as NumPy returns the views of broadcast_to and diagonal."""
    array.flags.writeable = False
    return array


def unique(
    ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True, sorted=True
):
    import numpy as np

    if axis is not None or not sorted:
        not_captured("numpy.unique along an axis, or not sorted")
    array = np.asarray(ar)
    if array.size == 0:
        not_captured("numpy.unique of nothing")
    if return_index or return_inverse:
        flat = np.ravel(array)
        order = np.argsort(flat, kind="stable" if return_index else None)
        values = flat[order]
    else:
        values = np.sort(array, axis=None)
    first = np.ones(values.shape, bool)
    first[1:] = values[1:] != values[:-1]
    if equal_nan and values.dtype.kind == "f":  # NaN, sorted to the end, counts as one value
        first[1:] &= ~(np.isnan(values[1:]) & np.isnan(values[:-1]))
    results = (values[first],)
    if return_index:
        results += (order[first],)
    if return_inverse:
        inverse = np.empty(order.shape, np.intp)
        inverse[order] = np.cumsum(first) - 1
        is_flat = np.__version__.startswith("1.")
        results += (inverse if is_flat else inverse.reshape(array.shape),)
    if return_counts:
        starts = np.nonzero(first)[0]
        results += (np.diff(np.concatenate((starts, np.array([values.size], starts.dtype)))),)
    return results if len(results) > 1 else results[0]


def bincount(x, /, weights=None, minlength=0):
    import numpy as np

    x = np.asarray(x)
    if x.ndim != 1 or x.size == 0 or x.dtype.kind not in "iu" or x.dtype == np.uint64 or minlength < 0:
        not_captured("numpy.bincount of this array")
    if x.min() < 0:
        raise ValueError("'list' argument must have no negative elements")
    size = max(int(x.max()) + 1, minlength)
    if weights is None:
        return sums_at(size, x.astype(np.int64), np.ones(x.shape, np.int64))
    weights = np.asarray(weights)
    if weights.shape != x.shape or weights.dtype.kind not in "biuf":
        not_captured("numpy.bincount with such weights")
    return sums_at(size, x.astype(np.int64), weights.astype(np.float64))


def compress(condition, a, axis=None, out=None):
    import numpy as np

    if out is not None:
        not_captured("numpy.compress with out=")
    condition = np.asarray(condition)
    if condition.ndim != 1:
        raise ValueError("condition must be a 1-d array")
    return np.take(a, np.nonzero(condition)[0], axis=axis)


def repeat(a, repeats, axis=None):
    """With an array of counts: marks where the runs begin, and the number of marks so far, say what stands where."""
    import numpy as np

    counts = np.asarray(repeats)
    if axis is None:
        a, axis = np.ravel(a), 0
    if counts.ndim != 1 or counts.dtype.kind != "i" or counts.shape[0] != a.shape[axis] or counts.shape[0] == 0:
        not_captured("numpy.repeat with these counts")
    if counts.min() < 0:
        raise ValueError("repeats may not contain negative values.")
    ends = np.cumsum(counts)
    total = int(ends[-1])
    marks = sums_at(total + 1, ends - counts, np.ones_like(ends))
    return np.take(a, np.cumsum(marks)[:total] - 1, axis=axis)


class _array_converter:
    """What NumPy's functions that keep the kind of their arguments make of these, and of their results."""

    def __init__(self, *objects):
        import numpy as np

        self.arrays = tuple(np.asanyarray(x) for x in objects)
        self.of_scalars = not any(isinstance(x, np.ndarray) or array.ndim for x, array in zip(objects, self.arrays))

    def __getitem__(self, i):
        return self.arrays[i]

    def as_arrays(self, *, subok=True):
        return self.arrays

    def wrap(self, result, /, *, to_scalar=None):
        return result[()] if (self.of_scalars if to_scalar is None else to_scalar) and result.ndim == 0 else result
