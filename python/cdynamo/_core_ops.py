"""The core operators (graph/core.h) as functions of torch tensors: what `to_fx()` of a joint, forward or backward graph
calls. Operators that are ATen's are ATen's; of the others the operator's entry (graph/ops) has an expression over its
parameters, torch and the functions of this module."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

from . import _C

_functions: dict[str, Callable[..., Any]] = {}


def function(name: str) -> Callable[..., Any]:
    """The function of the core operator `name`."""
    if name not in _functions:
        _functions[name] = _make_function(name)
    return _functions[name]


def _make_function(name: str) -> Callable[..., Any]:
    torch = sys.modules.get("torch")
    form = _C.eager_form(name)
    if form is not None and torch is not None:
        parameters, expression = form
        made = eval(f"lambda {', '.join(parameters)}: {expression}", {**globals(), "torch": torch})
    elif torch is not None and "." not in name and hasattr(torch.ops.aten, name):
        return getattr(torch.ops.aten, name)
    else:

        def made(*args: Any) -> Any:
            raise NotImplementedError(f"{name} has no form outside of cdynamo")

    made.__module__ = __name__
    made.__name__ = made.__qualname__ = name.replace(".", "_")
    return made


def __getattr__(name: str) -> Callable[..., Any]:
    """The functions by the names that generated code has for them: core_expand is the operator core.expand."""
    if name.startswith("core_"):
        return function("core." + name.removeprefix("core_"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# What the expressions call.


def read_int(self):
    """The value of a size symbol from here on."""
    return int(self)


def running_counts(self, block):
    import torch

    padded = torch.nn.functional.pad(self, (0, -self.shape[0] % block))
    return padded.reshape(-1, block).sum(1).cumsum(0)


def running(scan, step, self, dim, stepwise):
    """What `scan` gives; stepwise: as rounded to the dtype after each `step`."""
    import torch

    if not stepwise or self.dtype not in (torch.float16, torch.float32) or self.shape[dim] == 0:
        return scan(self, dim, dtype=self.dtype)
    return torch.stack(list(itertools.accumulate(self.unbind(dim), step)), dim)


def torch_dtype(name):
    import torch

    return getattr(torch, name)


def iota(size, dim, dtype):
    import torch

    shape = [1] * len(size)
    shape[dim] = size[dim]
    return torch.arange(size[dim], dtype=dtype).reshape(shape).expand(size)


def _part(x, dim, first, count, stride):
    # Indexing x[:, ...] makes aliases of whole dims, which torch.vmap has no rule for.
    import torch

    if (first, count, stride) == (0, x.shape[dim], 1):
        return x
    return torch.ops.aten.slice(x, dim, first, first + (count - 1) * stride + 1 if count else first, stride)


def strided_slice(x, start, size, step):
    import torch

    for d, (first, count, stride) in enumerate(zip(start, size, step)):
        if stride > 0:
            x = _part(x, d, first, count, stride)
        else:
            x = x.index_select(d, torch.arange(count) * stride + first)
    return x


def windows(x, dims, kernel, stride, padding, dilation, out, fill):
    import torch

    for i, d in enumerate(dims):
        at = (torch.arange(out[i]) * stride[i] - padding[i])[:, None] + torch.arange(kernel[i]) * dilation[i]
        inside = (at >= 0) & (at < x.shape[d])
        parts = x.index_select(d, at.clamp(0, x.shape[d] - 1).flatten()).unflatten(d, at.shape)
        shape = [1] * parts.ndim
        shape[d : d + 2] = at.shape
        x = torch.where(inside.reshape(shape), parts, fill).movedim(d + 1, -1)
    return x


def pad(x, low, high, fill):
    import torch

    pairs = [side for d in reversed(range(x.ndim)) for side in (low[d], high[d])]
    return torch.nn.functional.pad(x, pairs, value=fill)


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


def over_dims(reduce, x, dims):
    for dim in sorted(dims, reverse=True):
        x = reduce(x, dim)
    return x


def extremum(reduce, x, dims):
    if not dims:
        return x
    # torch refuses dims of size 0 even where the result has no elements either.
    return x.sum(dims, dtype=x.dtype) if 0 in x.shape else reduce(x, dims)


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


def attention(query, key, value, mask, is_causal, scale):
    scores = _scores(query, key, mask, is_causal, scale)
    return scores.softmax(-1).nan_to_num(0.0) @ value, scores.logsumexp(-1)


def attention_backward(grad, query, key, value, mask, out, logsumexp, is_causal, scale):
    weights = (_scores(query, key, mask, is_causal, scale) - logsumexp[..., None]).exp().nan_to_num(0.0)
    inner = weights * (grad @ value.transpose(-2, -1) - (grad * out).sum(-1, keepdim=True))
    return inner @ key * scale, inner.transpose(-2, -1) @ query * scale, weights.transpose(-2, -1) @ grad


def clamp(x, low, high):
    import torch

    if low is not None:
        x = torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)
