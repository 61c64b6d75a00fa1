"""NumPy's complex arrays as pairs (real part, imaginary part) along one more dim of a real array: the tables of rules
(`numpy_complex.py`), and what they are written in."""

import numpy as np

from cdynamo.polyfills.rules import complex_of, not_captured, pairs_of

RULES = {}  # by NumPy's function
METHODS = {}  # by the method's name; the array is the first argument
PROPERTIES = {}


def _rule(*functions, method=None):
    def note(rule):
        for function in functions:
            RULES[function] = rule
        if method is not None:
            METHODS[method] = rule
        return rule

    return note


def _method(*names):
    def note(rule):
        for name in names:
            METHODS[name] = rule
        return rule

    return note


def _property(rule):
    PROPERTIES[rule.__name__] = rule
    return rule


# ---- pairs


def _has_dtype(x):
    return isinstance(x, (np.ndarray, np.generic))


def _is_complex(x):
    return _has_dtype(x) and x.dtype.kind == "c"


def _part(dtype):
    return np.float32 if dtype == np.complex64 else np.float64


def _dtype(x):
    """What counts of an operand: its dtype, or a number of Python's type, whose width does not count."""
    return x.dtype if _has_dtype(x) else type(x)(0)


def _parts(x, part):
    """Real and imaginary part of an array or a number as arrays of dtype `part`, or as numbers of Python's."""
    if _is_complex(x):
        real, imag = x.real, x.imag
        return (real, imag) if real.dtype == part else (real.astype(part), imag.astype(part))
    if _has_dtype(x):
        return (x if x.dtype == part else x.astype(part)), 0.0
    if isinstance(x, complex):
        return x.real, x.imag
    if isinstance(x, (bool, int, float)):
        return x, 0.0
    not_captured("an operand beside a complex array")


def _operands(a, b):
    part = _part(np.result_type(_dtype(a), _dtype(b)))
    return _parts(a, part), _parts(b, part)


def _stacked(real, imag):
    """The pairs, laid out as `real` is."""
    if real.ndim < 2 or real.flags.c_contiguous or 0 in real.strides:
        return np.stack((real, imag), -1)
    order = sorted(range(real.ndim), key=lambda dim: -abs(real.strides[dim]))
    back = [order.index(dim) for dim in range(real.ndim)]
    return np.stack((real.transpose(order), imag.transpose(order)), -1).transpose(*back, real.ndim)


def _result(real, imag):
    """What a ufunc gives: `real` has the shape of the result."""
    if not real.ndim:
        real, imag = np.asarray(real), np.asarray(imag, dtype=real.dtype)
    if not _has_dtype(imag):
        imag = np.full_like(real, imag)
    elif imag.shape != real.shape:
        imag = np.broadcast_to(imag, real.shape)
    return complex_of(_stacked(real, imag), True)


def _array(pairs):
    return complex_of(pairs, False)


def _axis(axis, z):
    """An axis of the complex array as one of its pairs: it is never the last of these."""
    if not isinstance(axis, int) or not -z.ndim <= axis < z.ndim:
        not_captured("an axis that a complex array has not")
    return axis - 1 if axis < 0 else axis


def _axes(axes, z):
    return _axis(axes, z) if isinstance(axes, int) else tuple([_axis(axis, z) for axis in axes])


def _ints(given):
    return tuple(given[0]) if len(given) == 1 and not isinstance(given[0], int) else given


def _cast(x, dtype):
    """A copy of a real or complex array, of another dtype."""
    if dtype.kind != "c":
        not_captured("complex numbers as real ones, of which NumPy warns")
    part = _part(dtype)
    if _is_complex(x):
        return complex_of(pairs_of(x).astype(part), not isinstance(x, np.ndarray))
    real = x.astype(part)
    return complex_of(_stacked(real, np.zeros_like(real)), not isinstance(x, np.ndarray))


def _component(z, index):
    view = pairs_of(z)[..., index]
    return view if isinstance(z, np.ndarray) else view[()]
