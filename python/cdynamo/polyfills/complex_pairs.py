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


def _strides_of_result(*operands, operator=torch.add):
    """The strides of eager's result of one element-wise operator on these, where dims of size one, or none, leave a
    choice: the operators on parts, whose strides are others, would choose in another way. None where there is no such
    dim."""
    tensors = [x for x in operands if isinstance(x, torch.Tensor)]
    if not any([_leaves_a_choice(x.shape) for x in tensors]):
        return None
    if operator is torch.add and len(tensors) == 2 and any([x.is_complex() for x in tensors]):
        dtype = _width(*tensors)  # on the CPU what is converted is copied before
        tensors = [x if x.dtype == dtype or x.device.type != "cpu" else _as_complex(x, dtype) for x in tensors]
    shape = torch.broadcast_shapes(*[x.shape for x in tensors])
    parts = [_plain(x).select(-1, 0) if x.is_complex() else x for x in tensors]
    if len(tensors) == len(operands) and all([x.shape == shape for x in tensors]):
        if all([x.is_contiguous() for x in tensors]):
            return _contiguous_strides(shape)
        strides = tensors[0].stride()
        if all([x.stride() == strides for x in tensors]) and _is_dense(shape, strides):
            return strides
    return operator(*parts, *[1] * (len(parts) == 1)).stride()


def _strides_like(z):
    """The strides of torch.empty_like(z), where dims of size one, or none, leave a choice."""
    if not _leaves_a_choice(z.shape):
        return None
    strides = z.stride()
    return strides if _is_dense(z.shape, strides) else torch.empty_like(_plain(z).select(-1, 0)).stride()


def _contiguous_strides(shape):
    strides, count = [], 1
    for size in reversed(shape):
        strides.insert(0, count)
        count *= size
    return tuple(strides)


def _leaves_a_choice(shape):
    return 0 in shape or 1 in shape


def _is_dense(shape, strides):
    if 0 in shape:
        return True
    count = 1
    for stride, size in sorted([(stride, size) for stride, size in zip(strides, shape) if size != 1]):
        if stride != count:
            return False
        count *= size
    return True


def _laid_out(x, strides):
    """A tensor with these strides, unless they are None."""
    if strides is None or x.stride() == strides:
        return x
    order = sorted(range(x.dim()), key=lambda dim: (-strides[dim], x.size(dim) == 1))
    x = x.permute(order).contiguous().permute([order.index(dim) for dim in range(x.dim())])
    return x if x.stride() == strides else x.as_strided(x.shape, strides)


def _laid_out_pairs(pairs, strides):
    """The pairs of complex numbers with these strides, unless they are None."""
    return _laid_out(pairs, strides and (*[2 * stride for stride in strides], 1))


def _stacked(real, imag, strides=None):
    """The pairs, laid out as `real` is, or `imag` where that is expanded; or with these strides of complex numbers."""
    if strides is not None:
        return _laid_out_pairs(torch.stack((real, imag), -1), strides)
    like = imag if 0 in real.stride() else real
    tells_order = like.numel() > 0 and 1 not in like.shape  # where there is nothing all strides are contiguous
    if like.dim() < 2 or 0 in like.stride() or (like.is_contiguous() and tells_order):
        return torch.stack((real, imag), -1)
    order = sorted(range(like.dim()), key=lambda dim: (-like.stride(dim), like.size(dim) == 1))
    if order == list(range(like.dim())):
        return torch.stack((real, imag), -1)
    back = [order.index(dim) for dim in range(like.dim())]
    return torch.stack((real.permute(order), imag.permute(order)), -1).permute(*back, -1)


def _joined(real, imag, strides=None):
    if not isinstance(imag, torch.Tensor):
        imag = torch.full_like(real, imag)
    if not isinstance(real, torch.Tensor):
        real = torch.full_like(imag, real)
    if real.shape != imag.shape:
        real, imag = torch.broadcast_tensors(real, imag)
    if real.dtype not in _COMPLEX or real.dtype != imag.dtype:
        not_captured("complex numbers of this width")
    return torch.view_as_complex(_stacked(real, imag, strides))


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
    return _joined(real, torch.zeros_like(real), real.stride() if 1 in real.shape else None)


def _part(x):
    return _REAL[x.dtype] if x.is_complex() else x.dtype


def _width(a, b):
    """The dtype of both: a tensor without dims does not widen one of floats or complex numbers that has some."""
    if (a.dim() == 0) != (b.dim() == 0):
        with_dims = a if a.dim() else b
        if with_dims.is_complex() or with_dims.is_floating_point():
            part = _part(with_dims)
            return _COMPLEX[part] if part in _COMPLEX else not_captured("complex numbers of this width")
    return torch.complex128 if torch.float64 in (_part(a), _part(b)) else torch.complex64


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
