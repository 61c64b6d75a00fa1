"""Rules for complex arrays that are computed: element by element, over axes."""

import math

import numpy as np

from cdynamo.polyfills.numpy_complex_pairs import (
    METHODS,
    _array,
    _axes,
    _axis,
    _dtype,
    _has_dtype,
    _operands,
    _part,
    _result,
    _rule,
    _stacked,
)
from cdynamo.polyfills.rules import complex_of, not_captured, pairs_of

# ---- element by element


@_rule(np.add)
def add(a, b):
    (ar, ai), (br, bi) = _operands(a, b)
    return _result(ar + br, ai + bi)


@_rule(np.subtract)
def subtract(a, b):
    (ar, ai), (br, bi) = _operands(a, b)
    return _result(ar - br, ai - bi)


@_rule(np.multiply)
def multiply(a, b):
    (ar, ai), (br, bi) = _operands(a, b)
    return _result(ar * br - ai * bi, ar * bi + ai * br)


@_rule(np.square)
def square(z):
    return multiply(z, z)


@_rule(np.divide, np.true_divide)
def divide(a, b):
    (ar, ai), (br, bi) = _operands(a, b)
    if not _has_dtype(br):  # a number
        br, bi = np.asarray(br, dtype=ar.dtype), np.asarray(bi, dtype=ar.dtype)
    elif not _has_dtype(bi):
        bi = np.asarray(0.0, dtype=br.dtype)
    # R. L. Smith's: the smaller part of the divisor is taken relative to the greater.
    first = np.abs(br) >= np.abs(bi)
    great, small = np.where(first, br, bi), np.where(first, bi, br)
    is_zero = first & (great == 0)
    ratio = np.where(is_zero, np.zeros_like(great), small / np.where(is_zero, np.ones_like(great), great))
    scale = 1.0 / (great + small * ratio)
    real = np.where(first, ar + ai * ratio, ar * ratio + ai) * scale
    imag = np.where(first, ai - ar * ratio, ai * ratio - ar) * scale
    zero = np.abs(great)
    real, imag = np.where(is_zero, ar / zero, real), np.where(is_zero, ai / zero, imag)
    return _result(real, imag)


@_rule(np.reciprocal)
def reciprocal(z):
    """As division by R. L. Smith's, but zero is no case of its own."""
    pairs = pairs_of(z)
    real, imag = pairs[..., 0], pairs[..., 1]
    first = np.abs(imag) <= np.abs(real)
    great, small = np.where(first, real, imag), np.where(first, imag, real)
    ratio = small / great
    scale = great + small * ratio
    return _result(np.where(first, 1.0, ratio) / scale, np.where(first, -ratio, -1.0) / scale)


@_rule(np.power)
def power(a, b):
    if isinstance(b, (int, float)) and not _has_dtype(b):
        if b == 2:
            return multiply(a, a)
        if b == 3:
            return multiply(multiply(a, a), a)
    return NotImplemented


@_rule(np.negative)
def negative(z):
    return complex_of(-pairs_of(z), True)


@_rule(np.positive)
def positive(z):
    return complex_of(+pairs_of(z), True)


@_rule(np.conjugate, method="conj")
def conjugate(z):
    pairs = pairs_of(z)
    return _result(pairs[..., 0], -pairs[..., 1])


METHODS["conjugate"] = conjugate


@_rule(np.absolute, method="__abs__")
def absolute(z):
    pairs = pairs_of(z)
    real, imag = pairs[..., 0], pairs[..., 1]
    is_zero = (real == 0) & (imag == 0)  # where the gradient is 0
    size = np.where(is_zero, np.zeros_like(real), np.hypot(np.where(is_zero, np.ones_like(real), real), imag))
    return size if size.ndim else size[()]


@_rule(np.exp)
def exp(z):
    pairs = pairs_of(z)
    real, imag = pairs[..., 0], pairs[..., 1]
    size = np.exp(real)
    is_odd = np.isinf(real) & ~np.isfinite(imag)  # the direction is unknown, the size known
    of_real, of_imag = size * np.cos(imag), np.where(imag == 0, imag, size * np.sin(imag))
    return _result(np.where(is_odd, size, of_real), np.where(is_odd & (size == 0), size, of_imag))


@_rule(np.equal)
def equal(a, b):
    (ar, ai), (br, bi) = _operands(a, b)
    return (ar == br) & (ai == bi)


@_rule(np.not_equal)
def not_equal(a, b):
    (ar, ai), (br, bi) = _operands(a, b)
    return (ar != br) | (ai != bi)


@_rule(np.isnan)
def isnan(z):
    pairs = pairs_of(z)
    return np.isnan(pairs[..., 0]) | np.isnan(pairs[..., 1])


@_rule(np.isinf)
def isinf(z):
    pairs = pairs_of(z)
    return np.isinf(pairs[..., 0]) | np.isinf(pairs[..., 1])


@_rule(np.isfinite)
def isfinite(z):
    pairs = pairs_of(z)
    return np.isfinite(pairs[..., 0]) & np.isfinite(pairs[..., 1])


@_rule(np.where)
def where(condition, x, y):
    if not isinstance(condition, np.ndarray) or condition.dtype != bool:
        return NotImplemented
    (ar, ai), (br, bi) = _operands(x, y)
    part = _part(np.result_type(_dtype(x), _dtype(y)))
    real = np.where(condition, _number(ar, part), _number(br, part))
    return _array(_stacked(real, np.where(condition, _number(ai, part), _number(bi, part))))


def _number(x, part):
    return x if _has_dtype(x) else np.asarray(x, dtype=part)


# ---- over axes


def _reduced(z, function, axis, keepdims):
    if axis is None:
        axes = tuple(range(z.ndim))
    else:
        axes = _axes((axis,) if isinstance(axis, int) else axis, z)
    if not axes:
        not_captured("a reduction over no axes")
    return complex_of(function(pairs_of(z), axis=axes, keepdims=keepdims), not keepdims)


@_rule(np.sum, method="sum")
def sum(a, axis=None, *, keepdims=False, **options):
    return NotImplemented if options else _reduced(a, np.sum, axis, keepdims)


@_rule(np.mean, method="mean")
def mean(a, axis=None, *, keepdims=False, **options):
    if options:
        return NotImplemented
    axes = range(a.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    count = math.prod([a.shape[i] for i in axes])
    # NumPy divides by a complex number.
    return divide(_reduced(a, np.sum, axis, keepdims), count) if count else NotImplemented


@_rule(np.cumsum, method="cumsum")
def cumsum(a, axis=None, **options):
    if options or axis is None and a.ndim != 1:
        return NotImplemented
    return _array(np.cumsum(pairs_of(a), axis=_axis(0 if axis is None else axis, a)))


@_rule(np.matmul, np.dot, method="dot")
def matmul(a, b):
    """Products of small matrices; greater ones are the library's."""
    ranks = (a.ndim, b.ndim) if _has_dtype(a) and _has_dtype(b) else (0, 0)
    if min(ranks) < 1 or max(ranks) > 2 or a.size * b.size > 1024:
        return NotImplemented
    (ar, ai), (br, bi) = _operands(a, b)
    ai, bi = _imaginary(ai, ar), _imaginary(bi, br)
    real = np.matmul(ar, br) - np.matmul(ai, bi)
    return _result(real, np.matmul(ar, bi) + np.matmul(ai, br))


@_rule(np.vdot)
def vdot(a, b):
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or a.size != b.size:
        return NotImplemented
    (ar, ai), (br, bi) = _operands(a.ravel(), b.ravel())
    ai, bi = _imaginary(ai, ar), _imaginary(bi, br)
    return _result(np.sum(ar * br + ai * bi), np.sum(ar * bi - ai * br))


@_rule(np.outer)
def outer(a, b):
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return NotImplemented
    return multiply(a.ravel()[:, None], b.ravel()[None, :])


@_rule(np.trace, method="trace")
def trace(a, offset=0, **options):
    if options or a.ndim != 2:
        return NotImplemented
    return complex_of(np.trace(pairs_of(a), offset), True)


@_rule(np.diagonal, method="diagonal")
def diagonal(a, offset=0, **options):
    if options or a.ndim != 2:
        return NotImplemented
    return _array(np.diagonal(pairs_of(a), offset).T)


def _imaginary(imag, real):
    return imag if _has_dtype(imag) else np.zeros_like(real)
