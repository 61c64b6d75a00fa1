"""What is known of a complex array, its items, and what is written to it."""

import numpy as np

from cdynamo.polyfills.numpy_complex_pairs import (
    RULES,
    _array,
    _component,
    _has_dtype,
    _is_complex,
    _method,
    _parts,
    _property,
)
from cdynamo.polyfills.numpy_complex_views import transpose
from cdynamo.polyfills.rules import complex_of, not_captured, pairs_of

# ---- what is known of an array


@_property
def dtype(z):
    return np.dtype(np.complex64 if pairs_of(z).dtype == np.float32 else np.complex128)


@_property
def shape(z):
    return pairs_of(z).shape[:-1]


@_property
def ndim(z):
    return pairs_of(z).ndim - 1


@_property
def size(z):
    return pairs_of(z).size // 2


@_property
def itemsize(z):
    return 2 * pairs_of(z).itemsize


@_property
def nbytes(z):
    return pairs_of(z).nbytes


@_property
def strides(z):
    return pairs_of(z).strides[:-1]


@_property
def real(z):
    return _component(z, 0)


@_property
def imag(z):
    return _component(z, 1)


@_property
def T(z):  # noqa: N802
    return transpose(z)


RULES[np.shape] = shape
RULES[np.ndim] = ndim
RULES[np.size] = size


# ---- items and writes


def _has_ellipsis(key):
    return any([item is Ellipsis for item in (key if isinstance(key, tuple) else (key,))])


def _key(key):
    """A subscript of the complex array as one of its pairs, whose last axis it leaves alone."""
    keys = key if isinstance(key, tuple) else (key,)
    return (*keys, slice(None)) if _has_ellipsis(key) else (*keys, Ellipsis, slice(None))


def getitem(z, key):
    items = pairs_of(z)[_key(key)]
    return _array(items) if items.ndim > 1 or _has_ellipsis(key) else complex_of(items.copy(), True)


def setitem(z, key, value):
    if not _has_dtype(value) and not isinstance(value, (bool, int, float, complex)):
        value = np.asarray(value)
    pairs = pairs_of(z)
    if _is_complex(value) and isinstance(value, np.ndarray):
        pairs[_key(key)] = pairs_of(value)
        return
    real, imag = _parts(value, pairs.dtype)
    pairs[..., 0][key] = real
    pairs[..., 1][key] = imag


def setattribute(z, name, value):
    if name not in ("real", "imag") or not isinstance(z, np.ndarray) or _is_complex(value):
        not_captured("an assignment to this attribute of a complex array")
    pairs_of(z)[..., 0 if name == "real" else 1][...] = value


def write(z, result):
    """What an operator in place, or out=, leaves in `z`."""
    if not _is_complex(z) or not isinstance(z, np.ndarray) or z.shape != np.shape(result):
        not_captured("such a result written to a complex array, or to a real one")
    setitem(z, Ellipsis, result)
    return z


@_method("fill")
def fill(z, value):
    if isinstance(value, np.ndarray) or not isinstance(z, np.ndarray):
        not_captured("fill() with an array")
    setitem(z, Ellipsis, value)
