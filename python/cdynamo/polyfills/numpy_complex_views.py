"""Rules for complex arrays that rearrange, and move no more than that: views, copies, concatenations."""

import numpy as np

from cdynamo.polyfills.numpy_complex_pairs import _array, _axes, _axis, _cast, _dtype, _ints, _method, _rule
from cdynamo.polyfills.rules import complex_of, not_captured, pairs_of


@_method("copy", "__copy__")
def copy(z, order="C"):
    return (
        _array(pairs_of(z).copy(order)) if isinstance(z, np.ndarray) and order in ("C", "K") else not_captured("copy")
    )


@_rule(np.copy)
def copy_of(a, order="K"):
    return copy(a, order)


@_method("reshape")
def reshape(z, *shape):
    if not isinstance(z, np.ndarray) and _ints(shape) == ():
        return z
    return _array(pairs_of(z).reshape(*_ints(shape), 2))


@_rule(np.reshape)
def reshape_of(a, shape):
    return reshape(a, shape)


@_rule(np.ravel, method="ravel")
def ravel(z):
    pairs = pairs_of(z)
    return _array((pairs if pairs.flags.c_contiguous else pairs.copy()).reshape(-1, 2))


@_method("flatten")
def flatten(z):
    return _array(pairs_of(z).copy().reshape(-1, 2))


@_rule(np.transpose, method="transpose")
def transpose(z, *axes):
    if not isinstance(z, np.ndarray) and not axes:
        return z
    axes = _ints(axes) if axes and axes[0] is not None else tuple(range(z.ndim))[::-1]
    return _array(pairs_of(z).transpose(*_axes(axes, z), z.ndim))


@_rule(np.swapaxes, method="swapaxes")
def swapaxes(z, axis1, axis2):
    return _array(pairs_of(z).swapaxes(_axis(axis1, z), _axis(axis2, z)))


@_rule(np.moveaxis)
def moveaxis(a, source, destination):
    return _array(np.moveaxis(pairs_of(a), _axes(source, a), _axes(destination, a)))


@_rule(np.expand_dims)
def expand_dims(a, axis):
    if not isinstance(axis, int) or not -a.ndim - 1 <= axis <= a.ndim:
        not_captured("this axis")
    return _array(np.expand_dims(pairs_of(a), axis - 1 if axis < 0 else axis))


@_rule(np.squeeze, method="squeeze")
def squeeze(a, axis=None):
    if axis is None and (not isinstance(a, np.ndarray) or 1 not in a.shape):
        return a
    axes = tuple([i for i in range(a.ndim) if a.shape[i] == 1]) if axis is None else _axes(axis, a)
    return _array(np.squeeze(pairs_of(a), axes))


@_rule(np.broadcast_to)
def broadcast_to(array, shape):
    sizes = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    return _array(np.broadcast_to(pairs_of(array), (*sizes, 2)))


def _all_pairs(arrays):
    dtype = np.result_type(*[_dtype(array) for array in arrays])
    return [pairs_of(array if array.dtype == dtype else _cast(array, dtype)) for array in arrays]


@_rule(np.concatenate)
def concatenate(arrays, axis=0):
    if not all([isinstance(array, np.ndarray) and array.ndim for array in arrays]):
        return NotImplemented
    pairs = _all_pairs(arrays)
    if not all([array.flags.c_contiguous for array in pairs]):
        return NotImplemented
    return _array(np.concatenate(pairs, _axis(axis, arrays[0])))


@_rule(np.stack)
def stack(arrays, axis=0):
    if not all([isinstance(array, np.ndarray) for array in arrays]):
        return NotImplemented
    rank = arrays[0].ndim + 1
    if not isinstance(axis, int) or not -rank <= axis < rank:
        not_captured("this axis")
    return _array(np.stack(_all_pairs(arrays), axis - 1 if axis < 0 else axis))


@_rule(np.roll)
def roll(a, shift, axis=None):
    if axis is None:
        return reshape(_array(np.roll(pairs_of(a).reshape(-1, 2), shift, 0)), a.shape)
    return _array(np.roll(pairs_of(a), shift, _axes(axis, a)))


@_rule(np.repeat, method="repeat")
def repeat(a, repeats, axis=None):
    if axis is None:
        return _array(np.repeat(pairs_of(a).reshape(-1, 2), repeats, axis=0))
    return _array(np.repeat(pairs_of(a), repeats, axis=_axis(axis, a)))


@_rule(np.nonzero, method="nonzero")
def nonzero(a):
    return np.nonzero(a != 0)


@_rule(np.flip)
def flip(m, axis=None):
    axes = tuple(range(m.ndim)) if axis is None else _axes(axis, m)
    if axes == ():
        return complex_of(pairs_of(m).copy(), True)  # m[()]
    return _array(np.flip(pairs_of(m), axes))
