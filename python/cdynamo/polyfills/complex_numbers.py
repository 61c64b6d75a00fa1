"""Complex tensors in terms of real ones: what each operator does to the pairs that `torch.view_as_real` shows, with
eager's results, dtypes and strides. A rule that gives NotImplemented leaves its call to PyTorch's library, as do
operators without one. Here: what is asked of a tensor, and writes; the others are in `complex_arithmetic.py` and
`complex_views.py`."""

import torch

from cdynamo.polyfills.complex_pairs import (
    _COMPLEX,
    PROPERTIES,
    RULES,
    _as_complex,
    _pairs,
    _parts,
    _plain,
    _property,
    _rule,
)
from cdynamo.polyfills.complex_views import transpose
from cdynamo.polyfills.rules import complex_of, not_captured, pairs_of

__all__ = ["PROPERTIES", "RULES", "tensor_of_array", "write"]

# ---- what is known of a tensor


@_property
def dtype(z):
    return _COMPLEX[_plain(z).dtype]


@_property
def shape(z):
    return _plain(z).shape[:-1]


@_property
def ndim(z):
    return _plain(z).dim() - 1


@_property
def device(z):
    return _plain(z).device


@_property
def layout(z):
    return torch.strided


@_property
def is_cuda(z):
    return _plain(z).is_cuda


@_property
def is_cpu(z):
    return _plain(z).is_cpu


@_property
def itemsize(z):
    return 2 * _plain(z).itemsize


@_property
def real(z):
    return _plain(z).select(-1, 0)


@_property
def imag(z):
    if z.is_conj():
        not_captured("the imaginary part of a conjugate")
    return _plain(z).select(-1, 1)


@_property
def T(z):  # noqa: N802
    if z.dim() != 2:
        not_captured("T of a tensor that has not 2 dimensions")
    return transpose(z, 0, 1)


@_property
def mT(z):  # noqa: N802
    return transpose(z, -2, -1)


@_property
def H(z):  # noqa: N802
    if z.dim() != 2:
        not_captured("H of a tensor that has not 2 dimensions")
    return transpose(z, 0, 1).conj()


@_property
def mH(z):  # noqa: N802
    return transpose(z, -2, -1).conj()


@_rule("is_floating_point")
def is_floating_point(z):
    return False


@_rule("is_signed")
def is_signed(z):
    return True


@_rule("dim", "ndimension")
def dim(z):
    return _plain(z).dim() - 1


@_rule("size")
def size(z, dim=None):
    return z.shape if dim is None else z.shape[dim]


@_rule("stride")
def stride(z, dim=None):
    strides = tuple([stride // 2 for stride in _plain(z).stride()[:-1]])
    return strides if dim is None else strides[dim]


@_rule("numel", "nelement")
def numel(z):
    return _plain(z).numel() // 2


@_rule("element_size")
def element_size(z):
    return 2 * _plain(z).element_size()


@_rule("is_contiguous")
def is_contiguous(z):
    return _plain(z).is_contiguous()


@_rule("get_device")
def get_device(z):
    return _plain(z).get_device()


@_rule("__len__")
def __len__(z):  # noqa: N807
    return len(_plain(z)) if z.dim() else not_captured("len() of a tensor without dims")


# ---- NumPy's arrays


@_rule("numpy")
def numpy(z, *, force=False):
    if force or z.is_conj() or not z.numel():
        not_captured("numpy() of a conjugate or of no numbers, or with force")
    return complex_of(torch.view_as_real(z).numpy(), False)


def tensor_of_array(array):
    """torch.from_numpy of a complex array."""
    if not array.size:
        not_captured("a tensor from a complex array without elements")
    return torch.view_as_complex(torch.from_numpy(pairs_of(array)))


# ---- functions of what tensors are asked


@_rule("conj")
def conj(z):
    return z.conj()


@_rule("is_complex")
def is_complex(x):
    return x.is_complex()


@_rule("is_conj")
def is_conj(z):
    return z.is_conj()


@_rule("real")
def real_of(z):
    return z.real


@_rule("imag")
def imag_of(z):
    return z.imag


# ---- written


@_rule("copy_")
def copy_(z, source, non_blocking=False):
    if not z.is_complex() or z.is_conj():
        not_captured("a write to a conjugate, or of complex numbers to a real tensor")
    if not isinstance(source, torch.Tensor):
        return fill_(z, source)
    torch.view_as_real(z).copy_(_pairs(_as_complex(source)))
    return z


@_rule("zero_")
def zero_(z):
    _plain(z).zero_()
    return z


@_rule("fill_")
def fill_(z, value):
    if not z.is_complex() or z.is_conj() or isinstance(value, torch.Tensor):
        not_captured("a write to a conjugate, or of complex numbers to a real tensor")
    real, imag = _parts(value)
    pairs = torch.view_as_real(z)
    pairs.select(-1, 0).fill_(real)
    pairs.select(-1, 1).fill_(imag)
    return z


def write(z, result):
    """What an operator in place leaves: z.add_(...) is z.copy_(z.add(...))."""
    if not isinstance(result, torch.Tensor) or result.shape != z.shape:
        not_captured("an operator in place that changes the shape")
    return copy_(z, result)
