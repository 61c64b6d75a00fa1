"""The core operators (graph/core.h) as functions of torch tensors: what `to_fx()` of a joint, forward or backward
graph calls. Operators that are ATen's are ATen's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def function(name: str) -> Callable[..., Any]:
    """The function of the core operator `name`."""
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    torch = sys.modules.get("torch")
    if torch is not None and "." not in name and hasattr(torch.ops.aten, name):
        return getattr(torch.ops.aten, name)

    def unavailable(*args: Any) -> Any:
        raise NotImplementedError(f"{name} has no form outside of cdynamo")

    unavailable.__name__ = name.replace(".", "_")
    return unavailable


def _core(fn: Callable[..., Any]) -> Callable[..., Any]:
    _FUNCTIONS[f"core.{fn.__name__}"] = fn
    return fn


def _dtype(name: str) -> Any:
    import torch

    return getattr(torch, name)


@_core
def cast(x, dtype):
    return x.to(_dtype(dtype))


@_core
def full(size, value, dtype):
    import torch

    return torch.full(size, value, dtype=_dtype(dtype))


@_core
def iota(size, dim, dtype):
    import torch

    shape = [1] * len(size)
    shape[dim] = size[dim]
    return torch.arange(size[dim], dtype=_dtype(dtype)).reshape(shape).expand(size)


@_core
def detach(x):
    return x.detach()


@_core
def own(x):
    return x


@_core
def follow(x, leader):
    return x


@_core
def unit_strides(x, strides):
    return x


@_core
def expand(x, size):
    return x.expand(size)


@_core
def permute(x, dims):
    return x.permute(dims)


@_core
def reshape(x, size):
    return x.reshape(size)


def _part(x, dim, first, count, stride):
    # Indexing x[:, ...] makes aliases of whole dims, which torch.vmap has no rule for.
    import torch

    if (first, count, stride) == (0, x.shape[dim], 1):
        return x
    return torch.ops.aten.slice(x, dim, first, first + (count - 1) * stride + 1 if count else first, stride)


@_core
def slice(x, start, size, step):  # noqa: A001
    import torch

    for d, (first, count, stride) in enumerate(zip(start, size, step)):
        if stride > 0:
            x = _part(x, d, first, count, stride)
        else:
            x = x.index_select(d, torch.arange(count) * stride + first)
    return x


@_core
def diagonal(x, offset, dim1, dim2):
    return x.diagonal(offset, dim1, dim2)


@_core
def window(x, dims, kernel, stride, padding, dilation, out, fill):
    import torch

    for i, d in enumerate(dims):
        at = (torch.arange(out[i]) * stride[i] - padding[i])[:, None] + torch.arange(kernel[i]) * dilation[i]
        inside = (at >= 0) & (at < x.shape[d])
        parts = x.index_select(d, at.clamp(0, x.shape[d] - 1).flatten()).unflatten(d, at.shape)
        shape = [1] * parts.ndim
        shape[d : d + 2] = at.shape
        x = torch.where(inside.reshape(shape), parts, fill).movedim(d + 1, -1)
    return x


@_core
def pad(x, low, high, fill):
    import torch

    pairs = [side for d in reversed(range(x.ndim)) for side in (low[d], high[d])]
    return torch.nn.functional.pad(x, pairs, value=fill)


@_core
def concat(values, dim):
    import torch

    return torch.cat(values, dim)


@_core
def gather(x, index, dim, error=None):
    return x.gather(dim, index)


@_core
def index(x, indices, error=None):
    return x[tuple(indices)]


@_core
def index_put(x, indices, values, accumulate, error=None):
    return x.index_put(tuple(indices), values, accumulate)


@_core
def slice_scatter(x, src, start, step):
    backwards = [d for d, stride in enumerate(step) if stride < 0]
    src = src.flip(backwards) if backwards else src

    def put(part, d):  # out of place, so that torch.vmap may follow
        if d == src.ndim:
            return src
        count, stride = src.shape[d], abs(step[d])
        span = (count - 1) * stride
        first = start[d] if step[d] > 0 else start[d] - span
        inner = put(_part(part, d, first, count, stride), d + 1)
        return part.slice_scatter(inner, d, first, first + span + 1 if count else first, stride)

    return put(x, 0)


@_core
def diagonal_scatter(x, src, offset, dim1, dim2):
    return x.diagonal_scatter(src, offset, dim1, dim2)


@_core
def scatter(x, index, src, dim, reduce, error=None):
    return x.scatter_reduce(dim, index, src, reduce) if reduce else x.scatter(dim, index, src)


def _over_each(step: Callable[[Any, int], Any], x: Any, dims: list[int]) -> Any:
    for d in sorted(dims, reverse=True):
        x = step(x, d)
    return x


@_core
def sum(x, dims):  # noqa: A001
    return x.sum(dims, dtype=x.dtype) if dims else x


@_core
def prod(x, dims):
    return _over_each(lambda y, d: y.prod(d, dtype=y.dtype), x, dims)


@_core
def amax(x, dims):
    # Of nothing there is nothing: torch refuses dims of size 0 where others are too.
    return (sum(x, dims) if 0 in x.shape else x.amax(dims)) if dims else x


@_core
def amin(x, dims):
    return (sum(x, dims) if 0 in x.shape else x.amin(dims)) if dims else x


@_core
def any(x, dims):  # noqa: A001
    return _over_each(lambda y, d: y.any(d), x, dims)


@_core
def all(x, dims):  # noqa: A001
    return _over_each(lambda y, d: y.all(d), x, dims)


@_core
def argmax(x, dims):
    return x.argmax(dims[0]) if len(dims) == 1 and x.ndim > 1 else x.argmax()


@_core
def argmin(x, dims):
    return x.argmin(dims[0]) if len(dims) == 1 and x.ndim > 1 else x.argmin()


@_core
def cumsum(x, dim):
    return x.cumsum(dim, dtype=x.dtype)


@_core
def cumprod(x, dim):
    return x.cumprod(dim, dtype=x.dtype)


@_core
def cummax_values(x, dim):
    return x.cummax(dim).values


@_core
def cummin_values(x, dim):
    return x.cummin(dim).values


@_core
def mm(x, y):
    return x @ y


@_core
def bmm(x, y):
    return x.bmm(y)


@_core
def convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    import torch

    return torch.ops.aten.convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@_core
def convolution_weight_grad(windows, image, size, stride, padding, dilation, groups):
    import torch

    sides = []  # the image as far as windows reach: with output_padding there is more of it
    for i, d in reversed(list(enumerate(range(2, image.ndim)))):
        reach = (windows.shape[d] - 1) * stride[i] + (size[d] - 1) * dilation[i] + 1
        sides += [padding[i], reach - padding[i] - image.shape[d]]
    image, none = torch.nn.functional.pad(image, sides), [0] * len(stride)
    weight = image.new_empty(size)
    return torch.ops.aten.convolution_backward(
        windows, image, weight, None, stride, none, dilation, False, none, groups, [False, True, False]
    )[1]


def _scores(query, key, mask, is_causal, scale):
    import torch

    scores = query @ key.transpose(-2, -1) * scale
    if mask is not None:
        scores = scores + mask
    if is_causal:
        rows, columns = scores.shape[-2:]
        scores = scores.masked_fill(torch.ones(rows, columns, dtype=torch.bool).triu(1), -float("inf"))
    return scores


@_core
def sdpa(query, key, value, mask, is_causal, scale):
    scores = _scores(query, key, mask, is_causal, scale)
    return scores.softmax(-1).nan_to_num(0.0) @ value, scores.logsumexp(-1)


@_core
def sdpa_backward(grad, query, key, value, mask, out, logsumexp, is_causal, scale):
    weights = (_scores(query, key, mask, is_causal, scale) - logsumexp[..., None]).exp().nan_to_num(0.0)
    inner = weights * (grad @ value.transpose(-2, -1) - (grad * out).sum(-1, keepdim=True))
    return inner @ key * scale, inner.transpose(-2, -1) @ query * scale, weights.transpose(-2, -1) @ grad


@_core
def true_divide(x, y):
    return x / y


@_core
def div_trunc(x, y):
    import torch

    return torch.div(x, y, rounding_mode="trunc")


@_core
def trigamma(x):
    import torch

    return torch.special.polygamma(1, x)


@_core
def clamp(x, low, high):
    import torch

    if low is not None:
        x = torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


@_core
def masked_fill(x, mask, value):
    import torch

    return torch.where(mask, value, x)


@_core
def pow(x, exponent):  # noqa: A001
    return x**exponent


@_core
def pow_scalar(x, exponent):
    return x**exponent
