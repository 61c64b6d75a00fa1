"""Rules for complex tensors that are looked at or put together in another way."""

import torch

from cdynamo.polyfills.complex_arithmetic import contiguous
from cdynamo.polyfills.complex_pairs import (
    _as_complex,
    _dim,
    _dims,
    _is_complex,
    _of,
    _pairs,
    _part,
    _parts,
    _plain,
    _rule,
    _sizes,
)
from cdynamo.polyfills.rules import not_captured

# ---- views


def _view(z, pairs_of):
    """The view of `z` that `pairs_of` gives of pairs."""
    if z.is_conj():
        return _view(z.conj(), pairs_of).conj()
    return torch.view_as_complex(pairs_of(torch.view_as_real(z)))


def _refuse_copy_of_conjugate(z):
    """Where these copy, the result is no lazy conjugate; where they are views, it is."""
    if z.is_conj() and not z.is_contiguous():
        not_captured("reshape() of a conjugate that is not contiguous")


@_rule("reshape")
def reshape(z, *shape):
    _refuse_copy_of_conjugate(z)
    return _view(z, lambda pairs: pairs.reshape(*_sizes(shape), 2))


@_rule("view")
def view(z, *shape):
    if len(shape) == 1 and isinstance(shape[0], torch.dtype):
        if shape[0] is not _plain(z).dtype or z.is_conj():
            not_captured("view() of complex numbers as another dtype")
        return torch.view_as_real(z).flatten(-2) if z.dim() else torch.view_as_real(z)
    return _view(z, lambda pairs: pairs.view(*_sizes(shape), 2))


@_rule("view_as", "reshape_as")
def view_as(z, other):
    return reshape(z, other.shape)


@_rule("ravel")
def ravel(z):
    return view(contiguous(z), -1)


@_rule("flatten")
def flatten(z, start_dim=0, end_dim=-1):
    if z.dim() == 0:
        return reshape(z, 1)
    _refuse_copy_of_conjugate(z)
    return _view(z, lambda pairs: pairs.flatten(_dim(start_dim, pairs), _dim(end_dim, pairs)))


@_rule("unflatten")
def unflatten(z, dim, sizes):
    return _view(z, lambda pairs: pairs.unflatten(_dim(dim, pairs), sizes))


@_rule("transpose", "swapaxes", "swapdims")
def transpose(z, dim0, dim1):
    return _view(z, lambda pairs: pairs.transpose(_dim(dim0, pairs), _dim(dim1, pairs))) if z.dim() else z


@_rule("t")
def t(z):
    if z.dim() > 2:
        return NotImplemented
    return transpose(z, 0, 1) if z.dim() == 2 else _view(z, lambda pairs: pairs.view(pairs.shape))


@_rule("adjoint")
def adjoint(z):
    return transpose(z, -2, -1).conj()


@_rule("permute")
def permute(z, *dims):
    return _view(z, lambda pairs: pairs.permute(*_dims(_sizes(dims), pairs), -1))


@_rule("movedim", "moveaxis")
def movedim(z, source, destination):
    return _view(z, lambda pairs: pairs.movedim(_dims(source, pairs), _dims(destination, pairs)))


@_rule("unsqueeze")
def unsqueeze(z, dim):
    return _view(z, lambda pairs: pairs.unsqueeze(_dim(dim, pairs, 1)))


@_rule("squeeze")
def squeeze(z, dim=None):
    dims = tuple([i for i in range(z.dim()) if z.shape[i] == 1]) if dim is None else dim
    return _view(z, lambda pairs: pairs.squeeze(_dims(dims, pairs)))


@_rule("expand", "broadcast_to")
def expand(z, *sizes):
    return _view(z, lambda pairs: pairs.expand(*_sizes(sizes), 2))


@_rule("expand_as")
def expand_as(z, other):
    return expand(z, other.shape)


@_rule("select")
def select(z, dim, index):
    return _view(z, lambda pairs: pairs.select(_dim(dim, pairs), index))


@_rule("narrow")
def narrow(z, dim, start, length):
    return _view(z, lambda pairs: pairs.narrow(_dim(dim, pairs), start, length))


@_rule("linalg_diagonal")
def linalg_diagonal(z, *, offset=0, dim1=-2, dim2=-1):
    return diagonal(z, offset, dim1, dim2)


@_rule("diagonal")
def diagonal(z, offset=0, dim1=0, dim2=1):
    return _view(z, lambda pairs: pairs.diagonal(offset, _dim(dim1, pairs), _dim(dim2, pairs)).movedim(-1, -2))


def _views(z, pairs_of):
    if z.is_conj():
        return type(found := _views(z.conj(), pairs_of))([part.conj() for part in found])
    found = pairs_of(torch.view_as_real(z))
    return type(found)([torch.view_as_complex(part) for part in found])


@_rule("chunk")
def chunk(z, chunks, dim=0):
    return _views(z, lambda pairs: pairs.chunk(chunks, _dim(dim, pairs)))


@_rule("hsplit")
def hsplit(z, sections):
    return tensor_split(z, sections, 0 if z.dim() == 1 else 1)


@_rule("vsplit")
def vsplit(z, sections):
    return tensor_split(z, sections, 0)


@_rule("dsplit")
def dsplit(z, sections):
    return tensor_split(z, sections, 2)


@_rule("split", "split_with_sizes")
def split(z, split_size, dim=0):
    return _views(z, lambda pairs: pairs.split(split_size, _dim(dim, pairs)))


@_rule("tensor_split")
def tensor_split(z, sections, dim=0):
    return _views(z, lambda pairs: pairs.tensor_split(sections, _dim(dim, pairs)))


@_rule("unbind", "__iter__")
def unbind(z, dim=0):
    return _views(z, lambda pairs: pairs.unbind(_dim(dim, pairs)))


def _key(key):
    """A subscript of a complex tensor as one of its pairs."""
    if isinstance(key, list) and not all(isinstance(item, int) for item in key):
        not_captured("a list that stands for a tuple")
    keys = key if isinstance(key, tuple) else (key,)
    given = any(item is Ellipsis for item in keys)
    return (*keys, slice(None)) if given else (*keys, Ellipsis, slice(None))


def _selects(key):
    """Whether a subscript gives a view: not where it gathers elements."""
    keys = key if isinstance(key, tuple) else (key,)
    return all(item is None or item is Ellipsis or isinstance(item, (int, slice)) for item in keys)


@_rule("getitem", "__getitem__")
def getitem(z, key):
    if not z.is_conj():
        return _of(torch.view_as_real(z)[_key(key)])
    if _selects(key):
        return getitem(z.conj(), key).conj()
    return _of(_pairs(z)[_key(key)])


@_rule("setitem", "__setitem__")
def setitem(z, key, value):
    if z.is_conj() or not z.is_complex():
        not_captured("assignment to items of a conjugate")
    pairs, keys = torch.view_as_real(z), _key(key)
    if _is_complex(value):
        pairs[keys] = _pairs(value)
        return
    real, imag = _parts(value)
    pairs.select(-1, 0)[key] = real
    pairs.select(-1, 1)[key] = imag


# ---- rearranged


def _all_complex(tensors):
    wide = any(_part(x) == torch.float64 for x in tensors)
    return [_pairs(_as_complex(x, torch.complex128 if wide else torch.complex64)) for x in tensors]


@_rule("cat", "concat", "concatenate")
def cat(tensors, dim=0):
    if any(x.dim() == 0 for x in tensors):
        not_captured("cat() of tensors without dims")
    if not all(x.is_contiguous() for x in tensors):
        return NotImplemented  # in what layout depends on all of them
    pairs = _all_complex(tensors)
    return _of(torch.cat(pairs, _dim(dim, pairs[0])))


@_rule("stack")
def stack(tensors, dim=0):
    pairs = _all_complex(tensors)
    return _of(torch.stack(pairs, _dim(dim, pairs[0], 1)))


@_rule("roll")
def roll(z, shifts, dims=None):
    if dims is None or not isinstance(dims, int) and len(dims) == 0:
        return reshape(_of(_pairs(z).reshape(-1, 2).roll(shifts, 0)), z.shape)
    pairs = _pairs(z)
    return _of(pairs.roll(shifts, _dims(dims, pairs)))


@_rule("flip")
def flip(z, *dims):
    pairs = _pairs(z)
    return _of(pairs.flip(_dims(_sizes(dims), pairs)))


@_rule("index_select")
def index_select(z, dim, index):
    pairs = _pairs(z)
    return _of(pairs.index_select(_dim(dim, pairs), index))


@_rule("repeat")
def repeat(z, *sizes):
    return _of(_pairs(z).repeat(*_sizes(sizes), 1))


@_rule("einsum")
def einsum(equation, *operands):
    operands = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    return torch._C._VariableFunctions.einsum(equation, list(operands))
