"""Complex arrays that are made: of sizes, of other arrays and dtypes, of lists."""

import numpy as np

from cdynamo.polyfills.numpy_complex_items import setitem
from cdynamo.polyfills.numpy_complex_pairs import (
    _array,
    _cast,
    _component,
    _has_dtype,
    _is_complex,
    _method,
    _part,
    _parts,
    _result,
    _rule,
    _stacked,
)
from cdynamo.polyfills.numpy_complex_views import copy_of, reshape
from cdynamo.polyfills.rules import not_captured, pairs_of


@_rule(np.zeros, np.empty)
def zeros(shape, dtype=None, order="C"):
    return _filled(np.zeros, shape, dtype, order)


def _filled(function, shape, dtype, order):
    sizes = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    if order != "C":
        not_captured("this order of a complex array")
    return _array(function((*sizes, 2), _part(np.dtype(dtype))))


@_rule(np.ones)
def ones(shape, dtype=None, order="C"):
    array = _filled(np.zeros, shape, dtype, order)
    pairs_of(array)[..., 0] = 1
    return array


@_rule(np.full)
def full(shape, fill_value, dtype=None, order="C"):
    if isinstance(fill_value, np.ndarray):
        not_captured("numpy.full of an array")
    dtype = np.result_type(fill_value) if dtype is None else np.dtype(dtype)
    if dtype.kind != "c":
        not_captured("complex numbers as real ones")
    array = _filled(np.zeros, shape, dtype, order)
    setitem(array, Ellipsis, fill_value)
    return array


def _like(z, dtype, value):
    dtype = z.dtype if dtype is None else np.dtype(dtype)
    if not isinstance(z, np.ndarray):
        not_captured("an array like a scalar")
    like = pairs_of(z) if _is_complex(z) else _stacked(z, z)
    if dtype.kind != "c":
        return np.full_like(_component(z, 0), value, dtype=dtype)
    array = _array(np.zeros_like(like, dtype=_part(dtype)))
    if not (isinstance(value, int) and value == 0):
        setitem(array, Ellipsis, value)
    return array


@_rule(np.zeros_like, np.empty_like)
def zeros_like(a, dtype=None):
    return _like(a, dtype, 0)


@_rule(np.ones_like)
def ones_like(a, dtype=None):
    return _like(a, dtype, 1)


@_rule(np.full_like)
def full_like(a, fill_value, dtype=None):
    return _like(a, dtype, fill_value)


@_method("astype")
def astype(z, dtype, *, copy=True):
    dtype = np.dtype(dtype)
    return z if not copy and dtype == z.dtype else _cast(z, dtype)


def number(x, type):
    """numpy.complex128(x) and the like, of what is no constant."""
    if isinstance(x, np.ndarray) and x.ndim:
        return astype(x, type)
    real, imag = _parts(x, _part(np.dtype(type)))
    return _result(_as_part(real, type)[()], _as_part(imag, type)[()])


@_rule(np.array)
def array(object, dtype=None, *, copy=True):
    return _converted(object, dtype, copy)


@_rule(np.asarray, np.asanyarray)
def asarray(a, dtype=None):
    return _converted(a, dtype, False)


@_rule(np.ascontiguousarray)
def ascontiguousarray(a, dtype=None):
    array = _converted(a, dtype, False)
    if not array.ndim:
        return reshape(array, 1) if array is a else reshape(copy_of(array), 1)
    return array if pairs_of(array).flags.c_contiguous else _array(pairs_of(array).copy())


def _converted(x, dtype, copies):
    if isinstance(x, (list, tuple)):
        return _of_items(x, dtype)
    if not isinstance(x, np.ndarray):
        return NotImplemented if not _has_dtype(x) else _array(pairs_of(_cast(x, np.dtype(dtype or x.dtype))).copy())
    wanted = x.dtype if dtype is None else np.dtype(dtype)
    if x.dtype != wanted:
        return _cast(x, wanted)
    return _array(pairs_of(x).copy("K")) if copies else x


def _of_items(items, dtype):
    items = [np.asarray(item) if isinstance(item, (list, tuple)) else item for item in items]
    if dtype is None:
        # Among items a number of Python's counts with its width.
        dtype = np.result_type(*[item.dtype if _has_dtype(item) else np.dtype(type(item)) for item in items])
    return _array(np.stack([_pairs_as(item, np.dtype(dtype)) for item in items]))


def _pairs_as(x, dtype):
    if isinstance(x, np.ndarray):
        return pairs_of(x if x.dtype == dtype else _cast(x, dtype))
    real, imag = _parts(x, _part(dtype))
    return np.stack((_as_part(real, dtype), _as_part(imag, dtype)), -1)


def _as_part(x, dtype):
    return np.asarray(x, dtype=_part(np.dtype(dtype)))
