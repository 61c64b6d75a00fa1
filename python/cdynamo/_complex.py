"""Complex tensors at the edges of a graph of real ones: each stands there as what `torch.view_as_real` gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cdynamo._library import without_content

_STATED = {function: stated for function, (_, stated) in without_content.FUNCTIONS.items()}


def complex_of(pairs: torch.Tensor, conjugate: bool, is_fresh: bool) -> torch.Tensor:
    """The complex tensor over the memory of `pairs`, lazily conjugated or not; with its history, in any grad mode.

    Eager has no view there, unless `pairs` is one of what the program has: the result can be made a leaf that is
    written to. A view that was made under no_grad has a base with a history, and no node of its own."""
    is_recorded = not (pairs.requires_grad and pairs._is_view() and pairs.grad_fn is None)
    with torch.set_grad_enabled(is_recorded):
        result = torch.view_as_complex(pairs)
        if not pairs.requires_grad and (is_fresh or not pairs._is_view()):
            result = result.detach()
    if not conjugate:
        return result
    with torch.set_grad_enabled(pairs.requires_grad or torch.is_grad_enabled()):
        return result.conj()


def _joined(mark: Any, value: Any) -> Any:
    """`value` with complex tensors for the pairs that `mark` names: True, or nested tuples of such."""
    if mark is True:
        return torch.view_as_complex(value if value.stride(-1) == 1 else value.contiguous())
    if isinstance(mark, tuple):
        return type(value)(_joined(of_item, item) for of_item, item in zip(mark, value))
    return value


class ComplexCall:
    """A call of an operator of PyTorch's in which tensors are complex, as one of real tensors.

    `args` and `kwargs` name the arguments that are pairs, as `_joined` reads them. Which of the results, in the order
    of their leaves, stood for complex ones is in `complex_results` after a call.
    """

    def __init__(self, kind: str, target: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        self.kind, self.target, self.marks, self._kwargs = kind, target, args, kwargs
        name = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
        self.__name__ = self.__qualname__ = f"complex_{name}"
        function = getattr(torch.Tensor, target) if kind == "call_method" else target
        self.function: Callable[..., Any] = _STATED.get(function, function)
        self.complex_results: list[bool] = []

    def _real(self, result: Any, found: list[bool]) -> Any:
        if type(result) is torch.Tensor:
            is_complex = result.is_complex()
            found.append(is_complex)
            if result.is_neg() or is_complex and result.is_conj():
                result = result.resolve_conj().resolve_neg()
            return torch.view_as_real(result) if is_complex else result
        if type(result) in (tuple, list):
            return type(result)(self._real(item, found) for item in result)
        if type(result).__module__ == "torch.return_types":
            return type(result)([self._real(item, found) for item in result])
        return result

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args = [arg if mark is None else _joined(mark, arg) for mark, arg in zip(self.marks, args)]
        if kwargs:
            kwargs = {key: _joined(self._kwargs.get(key), arg) for key, arg in kwargs.items()}
        found: list[bool] = []
        result = self._real(self.function(*args, **kwargs), found)
        self.complex_results = found
        return result
