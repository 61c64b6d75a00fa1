"""Complex tensors as the pairs of real numbers that `torch.view_as_real` shows: the table of rules
(`complex_numbers.py`), and what they are written in."""

import torch

from cdynamo.polyfills.rules import not_captured

RULES = {}  # by the name of the function or method
PROPERTIES = {}  # by the name of the attribute

_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}
_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}


def _rule(*names):
    def note(function):
        for name in names:
            RULES[name] = function
        return function

    return note


def _property(function):
    PROPERTIES[function.__name__.strip("_")] = function
    return function


def _is_complex(x):
    return isinstance(x, torch.Tensor) and x.is_complex()


def _plain(z):
    """The pairs of a complex tensor, or of what it conjugates, as a view."""
    return torch.view_as_real(z.conj() if z.is_conj() else z)


def _pairs(z):
    """The pairs of a complex tensor as a view of it, or of what it conjugates as new ones."""
    pairs = _plain(z)
    if not z.is_conj():
        return pairs
    return _stacked(pairs.select(-1, 0), -pairs.select(-1, 1))


def _parts(x):
    """Real and imaginary part of a tensor or of a number."""
    if _is_complex(x):
        pairs = _plain(x)
        imag = pairs.select(-1, 1)
        return pairs.select(-1, 0), -imag if x.is_conj() else imag
    if isinstance(x, complex):
        return x.real, x.imag
    if isinstance(x, torch.Tensor) or isinstance(x, (bool, int, float)):
        return x, 0.0
    not_captured("an operand beside a complex tensor")


def _stacked(real, imag):
    """The pairs, laid out as `real` is, or `imag` where that is expanded."""
    like = imag if 0 in real.stride() else real
    if like.dim() < 2 or 0 in like.stride() or (like.is_contiguous() and 1 not in like.shape):
        return torch.stack((real, imag), -1)
    order = sorted(range(like.dim()), key=lambda dim: (-like.stride(dim), like.size(dim) == 1))
    back = [order.index(dim) for dim in range(like.dim())]
    return torch.stack((real.permute(order), imag.permute(order)), -1).permute(*back, -1)


def _joined(real, imag):
    if not isinstance(imag, torch.Tensor):
        imag = torch.full_like(real, imag)
    if not isinstance(real, torch.Tensor):
        real = torch.full_like(imag, real)
    if real.shape != imag.shape:
        real, imag = torch.broadcast_tensors(real, imag)
    if real.dtype not in _COMPLEX or real.dtype != imag.dtype:
        not_captured("complex numbers of this width")
    return torch.view_as_complex(_stacked(real, imag))


def _of(pairs):
    """The complex tensor of pairs that an operator has given."""
    return torch.view_as_complex(pairs if pairs.stride(-1) == 1 else pairs.contiguous())


def _as_complex(x, dtype=None):
    """A tensor as a complex one."""
    if _is_complex(x):
        return x if dtype is None or x.dtype == dtype else _of(_pairs(x).to(_REAL[dtype]))
    real = x if dtype is None else x.to(_REAL[dtype])
    if real.dtype not in _COMPLEX:
        real = real.to(torch.get_default_dtype())
    return _joined(real, torch.zeros_like(real))


def _check(a, b):
    """Beside a real tensor, a complex one without dims is promoted in another way than its parts would be."""
    for x, y in ((a, b), (b, a)):
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor) and not x.is_complex() and y.is_complex():
            if x.dim() > 0 and y.dim() == 0 and y.dtype == torch.complex128 and x.dtype != torch.float64:
                not_captured("a complex tensor without dims beside a real one")
            if x.dtype in (torch.float16, torch.bfloat16):
                not_captured("a complex tensor beside a half type")


def _dim(dim, pairs, added=0):
    """A dim of the complex tensor, to which `added` dims come, as one of its pairs: it is never the last of these."""
    rank = pairs.dim() - 1 + added
    if not isinstance(dim, int) or not -rank <= dim < rank:
        not_captured("a dim of a complex tensor that it has not")
    return dim - 1 if dim < 0 else dim


def _dims(dims, pairs):
    return _dim(dims, pairs) if isinstance(dims, int) else tuple([_dim(dim, pairs) for dim in dims])


def _sizes(sizes):
    if not sizes:
        not_captured("a method of a complex tensor that wants sizes or dims")
    return tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
