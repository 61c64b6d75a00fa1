"""Operators that write to their arguments: which these are, as the operator's schema says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef
from torch._ops import OpOverload, OpOverloadPacket

from cdynamo._library.tensors import Refused, is_dense, tensors_of


def overload_of(target: Any, args: Sequence, kwargs: dict[str, Any]) -> OpOverload | None:
    """The overload that is called; None: `target` is not called by a schema."""
    if isinstance(target, CustomOpDef):
        return target._opoverload
    if isinstance(target, OpOverloadPacket):
        return getattr(target, torch._C._jit_resolve_packet(target._qualified_op_name, *args, **kwargs))
    return target if isinstance(target, OpOverload) else None


def written_arguments(overload: OpOverload | None, args: Sequence, kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Those of the tensors among the arguments that the overload writes to."""
    if overload is None or not overload._schema.is_mutable:
        return []
    written: list[torch.Tensor] = []
    for i, parameter in enumerate(overload._schema.arguments):
        if parameter.alias_info is not None and parameter.alias_info.is_write:
            written += tensors_of(args[i] if i < len(args) else kwargs.get(parameter.name))
    return written


def is_one_of(tensor: torch.Tensor, tensors: Sequence[torch.Tensor]) -> bool:
    return any(tensor is other for other in tensors)


def type_of_copy(operand: tuple) -> tuple:
    """The type of the result that holds what has been written to an operand's copy."""
    dtype, sizes, strides, device = operand
    reach = 0
    for stride, size in sorted((stride, size) for size, stride in zip(sizes, strides) if size > 1):
        if stride <= reach:
            raise Refused("it writes to elements that overlap")
        reach += stride * (size - 1)
    if not is_dense(sizes, strides):
        strides = torch.empty(sizes, device="meta").stride()
    return dtype, sizes, strides, device


def copies_for_writes(operands: Sequence[tuple], writes: Sequence[int], tensors: Sequence[torch.Tensor]) -> list:
    """`tensors`, where the operator writes to one a copy of it, laid out as in eager."""
    given = list(tensors)
    for i in writes:
        dtype, sizes, strides, device = operands[i]
        given[i] = torch.empty_strided(sizes, strides, dtype=dtype, device=device).copy_(tensors[i])
    return given
