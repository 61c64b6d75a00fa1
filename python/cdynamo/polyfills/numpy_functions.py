"""What compiled code calls for NumPy's own objects, and NumPy's functions whose Python is not captured."""

from cdynamo.polyfills.rules import not_captured, required, sums_at


def read_only(array):
    """`array` itself, not writeable any more: as NumPy returns the views of broadcast_to and diagonal."""
    array.flags.writeable = False
    return array


def unique(
    ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True, sorted=True
):
    import numpy as np

    if not sorted:
        not_captured("numpy.unique that is not sorted")
    array = np.asarray(ar)
    if axis is not None:
        return _unique_along(array, axis, return_index, return_inverse, return_counts, equal_nan)
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


def _of_unknown_size(function, most, *args, whole=(), **options):
    """The results of a function whose data say how many items these have, `most` of them."""
    from cdynamo._numpy_library import padded

    count, *results = padded(function, most, whole, *args, **options)
    size = int(count)
    return tuple([item if place in whole else item[:size].copy() for place, item in enumerate(results)])


def _unique_along(array, axis, return_index, return_inverse, return_counts, equal_nan):
    import numpy as np

    from cdynamo._numpy_library import unique_rows

    if not isinstance(axis, int) or not -array.ndim <= axis < array.ndim or array.size == 0:
        not_captured("numpy.unique along this axis")
    whole = (1 + return_index,) if return_inverse else ()
    values, *others = _of_unknown_size(
        unique_rows, array.shape[axis], array, axis, whole=whole, return_index=return_index,
        return_inverse=return_inverse, return_counts=return_counts, equal_nan=equal_nan,
    )  # fmt: skip
    values = np.moveaxis(values, 0, axis)
    return (values, *others) if others else values


def roll(a, shift, axis=None):
    import numpy as np

    array = np.asarray(a)
    if isinstance(shift, np.ndarray):
        not_captured("numpy.roll by an array")
    if axis is None:
        return roll(array.ravel(), shift, 0).reshape(array.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        axes = axes * len(shifts) if len(axes) == 1 else not_captured("numpy.roll of these shifts and axes")
    for by, along in zip(shifts, axes):
        size = array.shape[along]
        array = np.take(array, (np.arange(size) - by) % size, along)
    return array


def intersect1d(ar1, ar2, assume_unique=False, return_indices=False):
    import numpy as np

    a, b = np.asarray(ar1), np.asarray(ar2)
    most = min(a.size, b.size)
    results = _of_unknown_size(np.intersect1d, most, a, b, assume_unique, return_indices)
    return results if return_indices else results[0]


def setdiff1d(ar1, ar2, assume_unique=False):
    import numpy as np

    a = np.asarray(ar1)
    return _of_unknown_size(np.setdiff1d, a.size, a, np.asarray(ar2), assume_unique)[0]


def setxor1d(ar1, ar2, assume_unique=False):
    import numpy as np

    a, b = np.asarray(ar1), np.asarray(ar2)
    return _of_unknown_size(np.setxor1d, a.size + b.size, a, b, assume_unique)[0]


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


def histogramdd(sample, bins=10, range=None, density=None, weights=None):
    """NumPy gives a view of what it counted, outliers on all sides; of a density a new array."""
    from cdynamo._numpy_library import density_histogram, whole_histogram

    if density:
        return density_histogram(sample, bins, range, weights)
    whole, edges = whole_histogram(sample, bins, range, weights)
    return whole[(slice(1, -1),) * whole.ndim], edges


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
    rank = np.ndim(a)
    if not isinstance(axis, int) or not -rank <= axis < rank or counts.ndim != 1 or counts.dtype.kind != "i":
        not_captured("numpy.repeat with these counts")
    if counts.shape[0] != a.shape[axis] or counts.shape[0] == 0:
        not_captured("numpy.repeat with these counts")
    if counts.min() < 0:
        raise ValueError("repeats may not contain negative values.")
    ends = np.cumsum(counts)
    total = int(ends[-1])
    marks = sums_at(total + 1, ends - counts, np.ones_like(ends))
    return np.take(a, np.cumsum(marks)[:total] - 1, axis=axis)


def broadcast_shapes(*args):
    shapes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in args]
    rank = max([len(shape) for shape in shapes], default=0)
    sizes = []
    for dim in range(-rank, 0):
        size = 1
        for shape in shapes:
            if len(shape) >= -dim and shape[dim] != 1:
                if size != 1 and shape[dim] != size:
                    not_captured("shapes that do not broadcast")
                size = shape[dim]
        if size < 0:
            not_captured("a negative size")
        sizes.append(size)
    return tuple(sizes)


def broadcast_arrays(*args, subok=False):
    """Arrays that have the shape are given as they are. Views of others could be written to, of which NumPy warns."""
    import numpy as np

    arrays = [np.asarray(x) for x in args]
    shape = broadcast_shapes(*[array.shape for array in arrays])
    if not all([array.shape == shape for array in arrays]):
        not_captured("numpy.broadcast_arrays of arrays that differ")
    return tuple(arrays)


def array_equiv(a1, a2):
    import numpy as np

    a1, a2 = np.asarray(a1), np.asarray(a2)
    broadcast_shapes(a1.shape, a2.shape)
    return bool((a1 == a2).all())


def fromiter(iter, dtype, count=-1, *, like=None):
    import itertools

    import numpy as np

    if like is not None or not isinstance(count, int):
        not_captured("numpy.fromiter with these arguments")
    items = list(iter if count < 0 else itertools.islice(iter, count))
    if len(items) < count:
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(items)} items.")
    if not all([isinstance(item, (int, float, complex, np.generic)) for item in items]):
        not_captured("numpy.fromiter of these items")
    return np.array(items, dtype=dtype) if items else np.empty(0, dtype)


def piecewise(x, condlist, funclist, *args, **kw):
    """Functions are called with the elements of their condition, of which there have to be some."""
    import numpy as np

    x = np.asarray(x)
    conditions = [condlist] if isinstance(condlist, np.ndarray) and condlist.ndim == x.ndim else list(condlist)
    if not all([isinstance(each, np.ndarray) and each.dtype == bool and each.shape == x.shape for each in conditions]):
        not_captured("numpy.piecewise with these conditions")
    if len(conditions) == len(funclist) - 1:
        otherwise = ~conditions[0]
        for each in conditions[1:]:
            otherwise = otherwise & ~each
        conditions.append(otherwise)
    if len(conditions) != len(funclist) or x.ndim == 0:
        not_captured("numpy.piecewise of these arguments")
    y = np.zeros_like(x)
    for condition, function in zip(conditions, funclist):
        if not callable(function):
            y[condition] = function
        else:
            items = x[condition]
            if items.size == 0:
                raise ValueError("nothing fulfils a condition")  # Python runs the call
            y[condition] = function(items, *args, **kw)
    return y


# ---- numpy.testing: where something is wrong, Python makes the call, and says what


def assert_allclose(actual, desired, rtol=1e-07, atol=0, equal_nan=True, err_msg="", verbose=True, *, strict=False):
    import numpy as np

    actual, desired = _compared(actual, desired, strict)
    if not np.isclose(actual, desired, rtol, atol, equal_nan).all():
        raise AssertionError(err_msg)


def assert_array_equal(actual, desired, err_msg="", verbose=True, *, strict=False):
    actual, desired = _compared(actual, desired, strict)
    equal = actual == desired
    if actual.dtype.kind == "f" and desired.dtype.kind == "f":
        equal = equal | ((actual != actual) & (desired != desired))
    if not equal.all():
        raise AssertionError(err_msg)


def _compared(actual, desired, strict):
    import numpy as np

    actual, desired = np.asarray(actual), np.asarray(desired)
    if strict or actual.dtype.kind not in "biuf" or desired.dtype.kind not in "biuf":
        not_captured("numpy.testing of these arrays")
    if actual.shape != desired.shape and actual.shape != () and desired.shape != ():
        not_captured("numpy.testing of arrays of other shapes")
    return actual, desired


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


def check_weights(a, axis, weights):
    """What numpy.average asks of its weights."""
    import numpy as np

    a, weights = np.asarray(a), np.asarray(weights)
    dtype = np.result_type(a.dtype, weights.dtype, "f8" if a.dtype.kind in "biu" else weights.dtype)
    total = weights.sum(axis=axis if weights.ndim == a.ndim else None, dtype=dtype)
    if np.any(total == 0.0):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")


def trim_zeros(filt, trim="fb", axis=None):
    """Of one dim. An item that only the graph knows is taken to be no zero where it is none, which is guarded."""
    import numpy as np

    if (
        not isinstance(filt, np.ndarray)
        or filt.ndim != 1
        or axis is not None
        or trim.lower() not in ("f", "b", "fb", "bf")
    ):
        not_captured("numpy.trim_zeros of other than an array of one dim")
    first, last = 0, filt.shape[0]
    while "f" in trim.lower() and first < last and not _is_no_zero(filt[first]):
        first += 1
    while "b" in trim.lower() and first < last and not _is_no_zero(filt[last - 1]):
        last -= 1
    return filt[first:last]


def _is_no_zero(item):
    is_none = (item != 0).item()
    return required(is_none) or is_none


def polymul(a1, a2):
    import numpy as np

    is_polynomial = isinstance(a1, np.poly1d) or isinstance(a2, np.poly1d)
    product = np.convolve(np.poly1d(a1).coeffs, np.poly1d(a2).coeffs)
    return np.poly1d(product) if is_polynomial else product
