"""What compiled code calls for NumPy's own objects, and NumPy's functions whose Python is not captured."""

from cdynamo.polyfills.rules import not_captured


def read_only(array):
    """`array` itself, not writeable any more: as NumPy returns the views of broadcast_to and diagonal."""
    array.flags.writeable = False
    return array


def unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True, **more):
    import numpy as np

    if return_index or return_inverse or axis is not None or not equal_nan or more:
        not_captured("numpy.unique with more than counts")
    values = np.sort(np.asarray(ar), axis=None)
    if values.size == 0:
        not_captured("numpy.unique of nothing")
    first = np.ones(values.shape, bool)
    first[1:] = values[1:] != values[:-1]
    if values.dtype.kind == "f":  # NaN, sorted to the end, counts as one value
        first[1:] &= ~(np.isnan(values[1:]) & np.isnan(values[:-1]))
    if not return_counts:
        return values[first]
    starts = np.nonzero(first)[0]
    return values[first], np.diff(np.concatenate((starts, np.array([values.size], starts.dtype))))
