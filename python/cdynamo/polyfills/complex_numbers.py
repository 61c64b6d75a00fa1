"""Complex tensors in terms of real ones: what each operator does to the pairs that `torch.view_as_real` shows, with
eager's results, dtypes and strides. A rule that gives NotImplemented leaves its call to PyTorch's library, as do
operators without one."""

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


# ---- pairs


def _is_complex(x):
    return isinstance(x, torch.Tensor) and x.is_complex()


def _pairs(z):
    """The pairs of a complex tensor as a view of it, or of what it conjugates as new ones."""
    if not z.is_conj():
        return torch.view_as_real(z)
    pairs = torch.view_as_real(z.conj())
    return _stacked(pairs.select(-1, 0), -pairs.select(-1, 1))


def _parts(x):
    """Real and imaginary part of a tensor or of a number."""
    if _is_complex(x):
        pairs = torch.view_as_real(x.conj() if x.is_conj() else x)
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
    if like.dim() < 2 or like.is_contiguous() or 0 in like.stride():
        return torch.stack((real, imag), -1)
    order = sorted(range(like.dim()), key=lambda dim: -like.stride(dim))
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


# ---- what is known of a tensor


@_property
def dtype(z):
    return _COMPLEX[torch.view_as_real(z.conj() if z.is_conj() else z).dtype]


def _plain(z):
    return torch.view_as_real(z.conj() if z.is_conj() else z)


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


# ---- made of real ones


@_rule("complex")
def complex_(real, imag):
    return _joined(real, imag)


@_rule("polar")
def polar(abs, angle):
    return _joined(abs * torch.cos(angle), abs * torch.sin(angle))


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
    return _joined(torch.full_like(real, of_real), torch.full_like(real, of_imag))


# ---- element by element


@_rule("add")
def add(a, b, *, alpha=1):
    return _sum(a, _scaled(b, alpha), False)


@_rule("sub", "subtract")
def sub(a, b, *, alpha=1):
    return _sum(a, _scaled(b, alpha), True)


@_rule("rsub")
def rsub(a, b, *, alpha=1):
    return sub(b, a, alpha=alpha)


def _scaled(b, alpha):
    if isinstance(alpha, complex):
        not_captured("a complex alpha")
    if isinstance(alpha, int) and alpha == 1:
        return b
    return mul(b, alpha) if _is_complex(b) else b * alpha


def _sum(a, b, negated):
    _check(a, b)
    if _is_complex(a) and _is_complex(b) and a.shape == b.shape:
        return _of(_pairs(a) - _pairs(b) if negated else _pairs(a) + _pairs(b))
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    return _joined(ar - br, ai - bi) if negated else _joined(ar + br, ai + bi)


@_rule("mul", "multiply")
def mul(a, b):
    _check(a, b)
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    return _joined(ar * br - ai * bi, ar * bi + ai * br)


@_rule("square")
def square(z):
    return mul(z, z)


@_rule("div", "divide", "true_divide")
def div(a, b, *, rounding_mode=None):
    if rounding_mode is not None:
        not_captured("a rounded complex quotient")
    _check(a, b)
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
    scale = 1.0 / (great + small * ratio)
    real = torch.where(first, ar + ai * ratio, ar * ratio + ai)
    imag = torch.where(first, ai - ar * ratio, ai * ratio - ar)
    return _joined(real * scale, imag * scale)


@_rule("reciprocal")
def reciprocal(z):
    return div(1.0, z)


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
    return _joined(real, -imag)


@_rule("resolve_conj")
def resolve_conj(z):
    return _of(_pairs(z)) if z.is_conj() else z


@_rule("resolve_neg")
def resolve_neg(z):
    return z


@_rule("abs", "absolute", "__abs__")
def abs(z):
    real, imag = _parts(z)
    # The gradient at 0 is 0.
    is_zero = (real == 0) & (imag == 0)
    return torch.where(is_zero, 0.0, torch.hypot(torch.where(is_zero, 1.0, real), imag))


@_rule("angle")
def angle(z):
    real, imag = _parts(z)
    return torch.atan2(imag, real)


@_rule("exp")
def exp(z):
    real, imag = _parts(z)
    size = torch.exp(real)
    return _joined(size * torch.cos(imag), torch.where(imag == 0, imag, size * torch.sin(imag)))


@_rule("eq")
def eq(a, b):
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    return (ar == br) & (ai == bi)


@_rule("ne", "not_equal")
def ne(a, b):
    return ~eq(a, b)


@_rule("isnan")
def isnan(z):
    return _pairs(z).isnan().any(-1)


@_rule("isinf")
def isinf(z):
    return _pairs(z).isinf().any(-1)


@_rule("isfinite")
def isfinite(z):
    return _pairs(z).isfinite().all(-1)


@_rule("where")
def where(condition, a, b):
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        not_captured("where() of a complex tensor and a number")
    dtype = torch.complex128 if torch.float64 in (_part(a), _part(b)) else torch.complex64
    return _of(torch.where(condition.unsqueeze(-1), _pairs(_as_complex(a, dtype)), _pairs(_as_complex(b, dtype))))


def _part(x):
    return _REAL[x.dtype] if x.is_complex() else x.dtype


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
        return clone(z.conj()).conj()
    return _of(torch.view_as_real(z).clone())


@_rule("contiguous")
def contiguous(z):
    return z if z.is_contiguous() and not z.is_conj() else torch.view_as_complex(_pairs(z).contiguous())


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


# ---- views


def _view(z, pairs_of):
    """The view of `z` that `pairs_of` gives of pairs."""
    if z.is_conj():
        return _view(z.conj(), pairs_of).conj()
    return torch.view_as_complex(pairs_of(torch.view_as_real(z)))


@_rule("reshape")
def reshape(z, *shape):
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
    return _view(z, lambda pairs: pairs.flatten(_dim(start_dim, pairs), _dim(end_dim, pairs)))


@_rule("unflatten")
def unflatten(z, dim, sizes):
    return _view(z, lambda pairs: pairs.unflatten(_dim(dim, pairs), sizes))


@_rule("transpose", "swapaxes", "swapdims")
def transpose(z, dim0, dim1):
    return _view(z, lambda pairs: pairs.transpose(_dim(dim0, pairs), _dim(dim1, pairs))) if z.dim() else z


@_rule("t")
def t(z):
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
    keys = key if isinstance(key, tuple) else (key,)
    given = any(item is Ellipsis for item in keys)
    return (*keys, slice(None)) if given else (*keys, Ellipsis, slice(None))


@_rule("getitem", "__getitem__")
def getitem(z, key):
    if z.is_conj():
        return getitem(z.conj(), key).conj()
    return _of(torch.view_as_real(z)[_key(key)])


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
    torch.view_as_real(z.conj() if z.is_conj() else z).zero_()
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
