"""What optimizers and gradient clipping of torch do around their operators."""

import contextlib

import torch


def no_range(*args, **kwargs):
    """A range of the profiler: what is in it is compiled together with the rest."""
    return contextlib.nullcontext()


def optimizer_step(step, optimizer, *args, **kwargs):
    """Of `_use_grad_for_differentiable`, which breaks the graph of torch.compile."""
    with torch.set_grad_enabled(optimizer.defaults["differentiable"]):
        return step(optimizer, *args, **kwargs)


def wrapped(function, *args, **kwargs):
    return function(*args, **kwargs)


def number_of(x):
    """A step count as eager's Python float has it: in double precision."""
    return x.double() if isinstance(x, torch.Tensor) else x


def stacked(x):
    return x


def group_by_device_and_dtype(tensor_lists, with_indices=False):
    groups = {}
    for i, first in enumerate(tensor_lists[0]):
        key = (first.device, first.dtype)
        if key not in groups:
            groups[key] = ([[] for _ in tensor_lists], [])
        lists, indices = groups[key]
        for given, grouped in zip(tensor_lists, lists):
            if given:
                grouped.append(given[i])
        if with_indices:
            indices.append(i)
    return groups


# In place; before PyTorch 2.12 they give None.
_FOREACH_GIVES_ITS_LIST = torch._foreach_zero_([torch.zeros(1)]) is not None


def foreach(name, tensors, *args, **kwargs):
    """`torch._foreach_…`: the operator on each tensor; a list among the arguments has one item for each."""
    results = []
    for i, x in enumerate(tensors):
        own = [a[i] if isinstance(a, (list, tuple)) else a for a in args]
        named = {k: a[i] if isinstance(a, (list, tuple)) else a for k, a in kwargs.items()}
        if name in ("maximum_", "minimum_"):
            x.copy_(getattr(x, name[:-1])(*own, **named))
        elif name == "norm":
            results.append(torch.linalg.vector_norm(x, *own, **named))
        elif name.startswith(("addcdiv", "addcmul")) and len(own) == 3:
            results.append(getattr(x, name)(own[0], own[1], value=own[2], **named))
        else:
            results.append(getattr(x, name)(*own, **named))
    if not name.endswith("_"):
        return tuple(results)
    return tensors if _FOREACH_GIVES_ITS_LIST else None


# ---- operators whose factor is a Number in the schema, where it is known when the graph runs only


def in_dtype_of(x, factor):
    return factor.to(x.dtype) if isinstance(factor, torch.Tensor) else factor


def add_scaled(x, other, alpha):
    return x + other * in_dtype_of(x, alpha)


def add_scaled_(x, other, alpha):
    return x.add_(other * in_dtype_of(x, alpha))


def sub_scaled(x, other, alpha):
    return x - other * in_dtype_of(x, alpha)


def sub_scaled_(x, other, alpha):
    return x.sub_(other * in_dtype_of(x, alpha))


def addcmul_scaled(x, a, b, value):
    return x + a * in_dtype_of(x, value) * b


def addcmul_scaled_(x, a, b, value):
    return x.add_(a * in_dtype_of(x, value) * b)


def addcdiv_scaled(x, a, b, value):
    return x + a * in_dtype_of(x, value) / b


def addcdiv_scaled_(x, a, b, value):
    return x.add_(a * in_dtype_of(x, value) / b)
