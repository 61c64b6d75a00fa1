"""Rules for complex numbers that are computed: made of real ones, element by element, over dims."""

import torch

from cdynamo.polyfills.complex_pairs import (
    _REAL,
    _as_complex,
    _check,
    _contiguous_strides,
    _dim,
    _dims,
    _is_complex,
    _joined,
    _laid_out,
    _laid_out_pairs,
    _of,
    _pairs,
    _part,
    _parts,
    _plain,
    _rule,
    _sizes,
    _strides_like,
    _strides_of_result,
    _width,
)
from cdynamo.polyfills.rules import not_captured

# ---- made of real ones


def _check_halves(first, second):
    """Eager has errors of its own where these are not two tensors of one real dtype."""
    are_tensors = isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)
    if not are_tensors or first.dtype != second.dtype or first.dtype not in _REAL.values():
        not_captured("a complex tensor of what are not two tensors of one real dtype")


@_rule("complex")
def complex_(real, imag):
    _check_halves(real, imag)
    if real.shape == imag.shape and real.is_contiguous() and imag.is_contiguous():
        return torch.view_as_complex(torch.stack((real, imag), -1))
    return _joined(real, imag, _strides_of_result(real, imag))


@_rule("polar")
def polar(abs, angle):
    _check_halves(abs, angle)
    strides = _strides_of_result(abs, angle)
    if torch.is_grad_enabled() and (abs.requires_grad or angle.requires_grad):
        # Gradients lie as halves of pairs.
        abs, angle = torch.stack(torch.broadcast_tensors(abs, angle), -1).unbind(-1)
    return _joined(abs * torch.cos(angle), abs * torch.sin(angle), strides)


@_rule("cfloat")
def cfloat(x):
    return _as_complex(x, torch.complex64)


@_rule("cdouble")
def cdouble(x):
    return _as_complex(x, torch.complex128)


@_rule("to")
def to(x, *args, dtype=None, device=None, copy=False):
    rest = []
    for arg in args:
        if isinstance(arg, torch.dtype):
            dtype = arg
        elif isinstance(arg, (torch.device, str)):
            device = arg
        elif isinstance(arg, torch.Tensor):
            dtype, device = arg.dtype, arg.device
        else:
            rest.append(arg)
    if rest or copy or (dtype is not None and dtype not in _REAL):
        not_captured("to() with these arguments")
    if device is not None and torch.device(device) != x.device:
        x = _of(_pairs(x).to(device)) if x.is_complex() else x.to(device)
    return x if dtype is None else _as_complex(x, dtype)


@_rule("type_as")
def type_as(x, other):
    return to(x, other)


@_rule("cpu")
def cpu(z):
    return to(z, "cpu")


@_rule("zeros")
def zeros(*size, dtype=None, device=None):
    return torch.view_as_complex(torch.zeros(*_sizes(size), 2, dtype=_REAL[dtype], device=device))


@_rule("empty")
def empty(*size, dtype=None, device=None):
    return torch.view_as_complex(torch.empty(*_sizes(size), 2, dtype=_REAL[dtype], device=device))


@_rule("ones")
def ones(*size, dtype=None, device=None):
    real = torch.ones(*_sizes(size), dtype=_REAL[dtype], device=device)
    return _joined(real, torch.zeros_like(real))


@_rule("full")
def full(size, fill_value, *, dtype=None, device=None):
    part = torch.get_default_dtype() if dtype is None else _REAL[dtype]
    real, imag = _parts(fill_value)
    real = torch.full(size, real, dtype=part, device=device)
    return _joined(real, torch.full(size, imag, dtype=part, device=device))


@_rule("tensor")
def tensor(data, *, dtype=None, device=None):
    part = torch.get_default_dtype() if dtype is None else _REAL[dtype]
    return torch.view_as_complex(torch.tensor(_listed(data), dtype=part, device=device))


def _listed(data):
    if isinstance(data, (list, tuple)):
        return [_listed(item) for item in data]
    if isinstance(data, torch.Tensor):
        not_captured("a tensor of complex tensors")
    return list(_parts(data))


@_rule("zeros_like")
def zeros_like(x, *, dtype=None):
    return _like(x, dtype, 0.0)


@_rule("ones_like")
def ones_like(x, *, dtype=None):
    return _like(x, dtype, 1.0)


@_rule("full_like")
def full_like(x, fill_value, *, dtype=None):
    return _like(x, dtype, fill_value)


@_rule("empty_like")
def empty_like(x, *, dtype=None):
    return _like(x, dtype, 0.0)


def _like(x, dtype, value):
    real = _plain(x).select(-1, 0) if x.is_complex() else x
    real = torch.empty_like(real, dtype=real.dtype if dtype is None else _REAL[dtype])
    of_real, of_imag = _parts(value)
    return _joined(torch.full_like(real, of_real), torch.full_like(real, of_imag), _strides_like(x))


# ---- element by element


@_rule("add")
def add(a, b, *, alpha=1):
    return _sum(a, b, alpha, False)


@_rule("sub", "subtract")
def sub(a, b, *, alpha=1):
    return _sum(a, b, alpha, True)


@_rule("rsub")
def rsub(a, b, *, alpha=1):
    return sub(b, a, alpha=alpha)


def _sum(a, b, alpha, negated):
    if isinstance(alpha, (complex, bool)):
        not_captured("a complex alpha, or a bool")
    if negated and any([isinstance(x, torch.Tensor) and x.dtype == torch.bool for x in (a, b)]):
        not_captured("a difference of bools")
    strides = _strides_of_result(a, b)
    _check(a, b)
    alpha = -alpha if negated else alpha
    if _is_complex(a) and _is_complex(b) and a.shape == b.shape:
        return _of(_laid_out_pairs(_pairs(a) + _times_pairs(_pairs(b), alpha), strides))
    if isinstance(b, torch.Tensor) and not b.is_complex() and not b.is_floating_point():
        b = b.to(_part(a))
    (ar, ai), (br, bi) = _parts(a), _times(b, alpha)
    return _joined(ar + br, ai + bi, strides)


def _times(b, alpha):
    """The parts of alpha * b, to eager's sums a product of complex numbers: an infinite part makes NaN of the other."""
    real, imag = _parts(b)
    of_real, of_imag = _nothing(real), _nothing(imag)
    if alpha != 1:
        real, imag = (-real, -imag) if alpha == -1 else (real * alpha, imag * alpha)
    return real - of_imag, imag + of_real


def _times_pairs(pairs, alpha):
    others = pairs.detach().flip(-1) * torch.tensor([-0.0, 0.0], dtype=pairs.dtype, device=pairs.device)
    return (pairs if alpha == 1 else -pairs if alpha == -1 else pairs * alpha) + others


def _nothing(x):
    """0 * x. No gradient comes through it."""
    return x.detach() * 0.0 if isinstance(x, torch.Tensor) else x * 0.0


@_rule("mul", "multiply")
def mul(a, b):
    _check(a, b)
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    return _joined(ar * br - ai * bi, ar * bi + ai * br, _strides_of_result(a, b))


@_rule("square")
def square(z):
    return mul(z, z)


@_rule("div", "divide", "true_divide")
def div(a, b, *, rounding_mode=None):
    if rounding_mode is not None:
        not_captured("a rounded complex quotient")
    _check(a, b)
    return _quotient(a, b, _strides_of_result(a, b))


def _quotient(a, b, strides):
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    if not isinstance(br, torch.Tensor):  # of a number
        br, bi = (
            torch.full((), br, dtype=ar.dtype, device=ar.device),
            torch.full((), bi, dtype=ar.dtype, device=ar.device),
        )
    elif not isinstance(bi, torch.Tensor):
        bi = torch.zeros_like(br)
    # R. L. Smith's: the smaller part of the divisor is taken relative to the greater.
    first = br.abs() >= bi.abs()
    great, small = torch.where(first, br, bi), torch.where(first, bi, br)
    is_zero = great == 0
    ratio = torch.where(is_zero, 0.0, small / torch.where(is_zero, 1.0, great))
    scale = 1.0 / (torch.where(is_zero, 0.0, great) + small * ratio)
    real = torch.where(is_zero, ar, torch.where(first, ar + ai * ratio, ar * ratio + ai))
    imag = torch.where(is_zero, ai, torch.where(first, ai - ar * ratio, ai * ratio - ar))
    return _joined(real * scale, imag * scale, strides)


@_rule("reciprocal")
def reciprocal(z):
    return _quotient(1.0, z, _strides_of_result(z))


@_rule("rdiv")
def rdiv(a, b):
    return div(b, a)


@_rule("pow")
def pow(a, exponent):
    return mul(a, a) if isinstance(exponent, (int, float)) and exponent == 2 else NotImplemented


@_rule("neg", "negative")
def neg(z):
    return _of(-_pairs(z))


@_rule("positive")
def positive(z):
    return z


@_rule("conj_physical")
def conj_physical(z):
    real, imag = _parts(z)
    return _joined(real, -imag, _strides_like(z))


@_rule("resolve_conj")
def resolve_conj(z):
    return _of(_pairs(z)) if z.is_conj() else z


@_rule("resolve_neg")
def resolve_neg(z):
    return z


@_rule("abs", "absolute", "__abs__")
def abs(z):
    real, imag = _parts(z)
    # The gradient at 0 is 0 times what comes in, which may be none.
    is_zero = (real == 0) & (imag == 0)
    size = torch.where(is_zero, real.abs() + imag.abs(), torch.hypot(torch.where(is_zero, 1.0, real), imag))
    return _laid_out(size, _strides_like(z))


@_rule("angle")
def angle(z):
    real, imag = _parts(z)
    return _laid_out(torch.atan2(imag, real), _contiguous_strides(z.shape))


@_rule("exp")
def exp(z):
    real, imag = _parts(z)
    size, sine = torch.exp(real), torch.sin(imag)
    # As the C library has it of what turns without end: as long as `real` says, or nothing at all.
    endless = real.isinf() & ~imag.isfinite()
    none = torch.copysign(torch.zeros_like(imag), imag)
    of_imag = torch.where(endless & (real < 0), none, torch.where(imag == 0, imag, size * sine))
    return _joined(torch.where(endless, size, size * torch.cos(imag)), of_imag, _strides_of_result(z))


@_rule("eq")
def eq(a, b):
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    return _laid_out((ar == br) & (ai == bi), _strides_of_result(a, b))


@_rule("ne", "not_equal")
def ne(a, b):
    return ~eq(a, b)


@_rule("isnan")
def isnan(z):
    real, imag = _parts(z)
    return real.isnan() | imag.isnan()


@_rule("isinf")
def isinf(z):
    real, imag = _parts(z)
    return real.isinf().__ior__(imag.isinf())  # where a dim has one place, the order is that of the first


@_rule("isfinite")
def isfinite(z):
    real, imag = _parts(z)
    return real.isfinite() & imag.isfinite()


@_rule("where")
def where(condition, a, b):
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        not_captured("where() of a complex tensor and a number")
    dtype = _width(a, b)
    a, b = _as_complex(a, dtype), _as_complex(b, dtype)
    strides = _strides_of_result(condition, a, b, operator=torch.where)
    return _of(_laid_out_pairs(torch.where(condition.unsqueeze(-1), _pairs(a), _pairs(b)), strides))


@_rule("masked_fill")
def masked_fill(z, mask, value):
    if not z.is_complex():
        not_captured("masked_fill() of a real tensor with a complex number")
    pairs = _pairs(z)
    of_real, of_imag = _parts(value)
    real, imag = pairs.select(-1, 0).masked_fill(mask, of_real), pairs.select(-1, 1).masked_fill(mask, of_imag)
    return _joined(real, imag)


@_rule("clone")
def clone(z, *, memory_format=torch.preserve_format):
    if memory_format is not torch.preserve_format:
        return torch.view_as_complex(_pairs(z).clone(memory_format=memory_format))
    if z.is_conj():
        return _joined(*_parts(z), _strides_like(z))
    return _of(torch.view_as_real(z).clone())


@_rule("contiguous")
def contiguous(z):
    return z if z.is_contiguous() else torch.view_as_complex(_pairs(z).contiguous())


@_rule("detach")
def detach(z):
    if z.is_conj():
        return detach(z.conj()).conj()
    return torch.view_as_complex(torch.view_as_real(z).detach())


# ---- over dims


@_rule("sum")
def sum(z, dim=None, keepdim=False, *, dtype=None):
    if dtype is not None:
        not_captured("sum() of complex numbers with a dtype")
    return _of(_reduced(_pairs(z), "sum", dim, keepdim))


@_rule("mean")
def mean(z, dim=None, keepdim=False, *, dtype=None):
    if dtype is not None:
        not_captured("mean() of complex numbers with a dtype")
    return _of(_reduced(_pairs(z), "mean", dim, keepdim))


def _reduced(pairs, name, dim, keepdim):
    if dim is None or not isinstance(dim, int) and len(dim) == 0:
        dims = tuple(range(pairs.dim() - 1))
    else:
        dims = _dims((dim,) if isinstance(dim, int) else dim, pairs)
    result = getattr(pairs, name)(dims, keepdim) if dims else pairs
    return _from_zero(result, [pairs.shape[dim] for dim in dims])


def _from_zero(result, sizes):
    """PyTorch begins a sum of complex numbers with 0, even of one: -0 becomes 0."""
    return result + 0.0 if all([size == 1 for size in sizes]) else result


@_rule("norm", "vector_norm", "linalg_vector_norm")
def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    if dtype is not None or isinstance(ord, str):
        return NotImplemented
    return torch.linalg.vector_norm(abs(x), ord, dim, keepdim)


@_rule("cumsum")
def cumsum(z, dim, *, dtype=None):
    if dtype is not None or z.dim() == 0:
        not_captured("cumsum() of complex numbers with a dtype")
    pairs = _pairs(z)
    dim = _dim(dim, pairs)
    return _of(_from_zero(pairs.cumsum(dim), [pairs.shape[dim]]))
