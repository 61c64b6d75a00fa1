"""What a node of a library call is told and keeps of tensors: their types, nested results, and memory to hand over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

CONSTANTS = (type(None), bool, int, float, complex, str)
CONSTANTS += (torch.dtype, torch.layout, torch.memory_format, torch.device)


class Refused(Exception):
    """The call is left to Python; the text says why."""


class Mispredicted(RuntimeError):
    """Results have other types than was foreseen: Python makes the call again, the next compilation knows better."""


class Mode(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else all of torch._dynamo is imported


def storage_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def tensors_of(tree: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested tuples and lists, in order."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from tensors_of(item)


def is_dense(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Elements neither overlap nor leave gaps."""
    expected = 1
    for stride, size in sorted((stride, size) for size, stride in zip(sizes, strides) if size != 1):
        if stride != expected and 0 not in sizes:
            return False
        expected *= size
    return True


def lie_alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Tensors of one shape, the strides of dims of one element aside."""
    return all(size == 1 or stride == other for size, stride, other in zip(a.shape, a.stride(), b.stride()))


def type_of(tensor: torch.Tensor, device: torch.device) -> tuple:
    """dtype, sizes, strides and device; tensors without content stand for those of `device`."""
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), device if tensor.device.type == "meta" else tensor.device


def without_strides(type: tuple) -> tuple:
    dtype, sizes, _, device = type
    return dtype, sizes, device


def empty(operand: tuple, requires_grad: bool = False, real: bool = False) -> torch.Tensor:
    dtype, sizes, strides, device = operand
    device = device if real else "meta"
    return torch.empty_strided(sizes, strides, dtype=dtype, device=device, requires_grad=requires_grad)


def decode(encoded: tuple, tensors: dict[int, Any]) -> Any:
    tag, content = encoded
    if tag == "value":
        return tensors[content]
    if tag in ("tuple", "list"):
        return (tuple if tag == "tuple" else list)(decode(item, tensors) for item in content)
    if tag == "const" and isinstance(content, (tuple, list)):
        return type(content)([decode(("const", item), tensors) for item in content])
    if tag != "const" or not isinstance(content, CONSTANTS):
        raise Refused("an argument is of a kind that nodes do not hold")
    return content


def tree_of(result: Any, leaves: list[torch.Tensor], written: Sequence[torch.Tensor] = ()) -> tuple:
    """Nested results: ("tensor", index), ("written", index), ("none", None), or (type, items) of a tuple, a list or a
    named one."""
    for i, argument in enumerate(written):
        if result is argument:
            return "written", i
    if type(result) is torch.Tensor:
        leaves.append(result)
        return "tensor", len(leaves) - 1
    if result is None:
        return "none", None
    if type(result) in (tuple, list) or type(result).__module__ == "torch.return_types":
        return type(result), [tree_of(item, leaves, written) for item in result]
    raise Refused(f"a result is a {type(result).__name__}")


def hand_over(inputs: Sequence[torch.Tensor], outputs: Sequence, results: Iterable) -> list[torch.Tensor | None]:
    """A call's results, None being zeros, as its outputs want them: copied into a tensor over planned memory, or, where
    an output is a type, a tensor of that type whose memory is its own."""
    taken: set[int] = set()
    given: list[torch.Tensor | None] = []
    for output, result in zip(outputs, results):
        if isinstance(output, tuple):
            dtype, sizes, strides, device = output
            taken = taken or {storage_of(tensor) for tensor in inputs}
            if result is None:
                result = torch.empty_strided(sizes, strides, dtype=dtype, device=device).zero_()
            elif result.stride() != strides or result.dtype != dtype or storage_of(result) in taken:
                result = torch.empty_strided(sizes, strides, dtype=dtype, device=device).copy_(result)
            elif result._is_view():  # autograd would look at what it is one of
                result = result.data
            taken.add(storage_of(result))
            given.append(result)
            continue
        given.append(None)
        if isinstance(output, torch.Tensor):
            output.zero_() if result is None else output.copy_(result)
    return given


def check_results(results: Sequence[torch.Tensor], operands: Sequence[torch.Tensor], device: torch.device) -> None:
    seen = {storage_of(operand) for operand in operands}
    for result in results:
        if result.layout != torch.strided or result.is_conj() or result.is_neg() or result.requires_grad:
            raise Refused("a result is no plain tensor")
        if type_of(result, device)[-1] != device:
            raise Refused("a result is on another device")
        if storage_of(result) in seen:
            raise Refused("a result shares memory with an argument or with another result")
        seen.add(storage_of(result))
