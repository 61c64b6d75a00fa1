"""NumPy's complex arrays in terms of real ones: what each function and method does to the pairs (real part, imaginary
part) that lie along one more dim, with NumPy's results, dtypes and layouts. A rule that gives NotImplemented leaves its
call to NumPy's library, as do ufuncs and functions without one."""

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


def _component(z, index):
    view = pairs_of(z)[..., index]
    return view if isinstance(z, np.ndarray) else view[()]


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


# ---- arrays made


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


def _cast(x, dtype):
    """A copy of a real or complex array, of another dtype."""
    if dtype.kind != "c":
        not_captured("complex numbers as real ones, of which NumPy warns")
    part = _part(dtype)
    if _is_complex(x):
        return complex_of(pairs_of(x).astype(part), not isinstance(x, np.ndarray))
    real = x.astype(part)
    return complex_of(_stacked(real, np.zeros_like(real)), not isinstance(x, np.ndarray))


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
    return divide(1.0, z)


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
    return NotImplemented if options else _reduced(a, np.mean, axis, keepdims)


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


# ---- views and rearrangements


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
    if not isinstance(a, np.ndarray) and axis is None:
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


for _name in ("prod", "cumprod", "std", "var", "take", "any", "all", "round", "max", "min",
              "argmax", "argmin", "sort", "argsort", "clip"):  # fmt: skip
    METHODS.setdefault(_name, getattr(np, _name))
del _name, METHODS["sort"]
