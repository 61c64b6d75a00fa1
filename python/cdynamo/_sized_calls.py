"""A library call whose operands' sizes change from call to call: a call of its own for each sizes, made when they are
first met. How the results' sizes follow from the operands' is learnt from a few sizes, and compared with what each call
says."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

Sizes = tuple[int, ...]

_KEPT = 64  # calls
_SHARED = ("name", "attributes", "tree", "writes", "differentiable", "selected_dim", "takes_arrays", "has_complex")
_irregular: set[str] = set()  # calls of which sizes other than those that were tried did not follow


class Unfit(Exception):
    """The call is to be made for the sizes at hand."""


class Mispredicted(RuntimeError):
    """Results have other sizes than was foreseen: Python makes the call again."""


def strides_by(order: Sequence[int], sizes: Sizes) -> Sizes:
    """Of a tensor without gaps; `order` has its dims from the innermost one outwards."""
    strides, step = [0] * len(sizes), 1
    for dim in order:
        strides[dim] = step
        step *= max(sizes[dim], 1)
    return tuple(strides)


def strides_of(layout: Sequence[tuple[int, Sequence[int]]], sizes: Sizes) -> Sizes:
    """`layout` has for each dim a factor and the dims by whose sizes it is multiplied."""
    return tuple(factor * math.prod(max(sizes[dim], 1) for dim in dims) for factor, dims in layout)


def _order_of(sizes: Sizes, strides: Sizes) -> tuple[int, ...]:
    return tuple(sorted(range(len(sizes)), key=lambda dim: (strides[dim], -dim)))


def _tried(hints: Sizes) -> list[Sizes]:
    """Sizes to learn from: those at hand, each of them greater by 1, 2 and 3, all of them by other numbers."""
    steps = [tuple(step * (i == k) for k in range(len(hints))) for i in range(len(hints)) for step in (1, 2, 3)]
    steps += [tuple(range(5, 5 + 2 * len(hints), 2)), tuple(range(4, 4 + 4 * len(hints), 4))]
    return [hints] + [tuple(map(sum, zip(hints, step))) for step in steps]


def _fit(tried: list[Sizes], found: list[int]) -> tuple[int, Sizes, tuple[int, int] | None]:
    """A size of a result: a constant, coefficients of the sizes that change, and which of them is halved, and what is
    added to it before."""
    coefficients, half = [], None
    for i, hint in enumerate(tried[0]):
        first, second = found[3 * i + 1] - found[0], found[3 * i + 2] - found[0]
        is_half = half is None and second == 1 and first in (0, 1)
        if is_half:
            half = i, (hint + first) % 2
        coefficients.append(0 if is_half else first)

    def changing(sizes: Sizes) -> int:
        halved = (sizes[half[0]] + half[1]) // 2 if half else 0
        return halved + sum(coefficient * size for coefficient, size in zip(coefficients, sizes))

    constant = found[0] - changing(tried[0])
    if [constant + changing(sizes) for sizes in tried] != found:
        raise Unfit
    return constant, tuple(coefficients), half


class SizedCall:
    """`make` gives the call for the sizes of all operands. `forms` has those of each, ints or (index in `hints`,)."""

    def __init__(self, make: Callable[[tuple[Sizes, ...]], Any], forms: list[tuple], hints: Sizes) -> None:
        self.stale = False
        self._count = len(forms)
        tried = _tried(hints)
        calls = [make(tuple(self._sizes(form, sizes) for form in forms)) for sizes in tried]
        for name in _SHARED:
            value, *others = [getattr(call, name, None) for call in calls]
            if any(other != value for other in others):
                raise Unfit
            setattr(self, name, value)
        self.__name__ = self.__qualname__ = calls[0].__name__
        self._key = f"{self.name} {self.attributes} {forms}"
        if self._key in _irregular:
            raise Unfit
        self.gradient_strides: Sizes = ()
        if any(getattr(call, "gradient_strides", ()) for call in calls):  # those change with the sizes
            self.differentiable = -1
        self._orders = [_order_of(sizes, strides) for _, sizes, strides, *_ in calls[0].types]
        for call in calls:
            self._check_order(call)
        self.types = []  # dtype, sizes as `_fit` gives them, order of the dims, and what else there is
        for i, (dtype, sizes, _, *rest) in enumerate(calls[0].types):
            found = [call.types[i][1] for call in calls]
            if any(len(other) != len(sizes) for other in found):
                raise Unfit
            fitted = tuple(_fit(tried, [other[dim] for other in found]) for dim in range(len(sizes)))
            self.types.append((dtype, fitted, self._orders[i], *rest))
        # The same for all sizes; the results' strides are compared with what the graph was told.
        directs = [getattr(call, "direct", None) for call in calls]
        self.direct = (*directs[0], True) if all(directs) else None
        self._call = functools.lru_cache(_KEPT)(lambda sizes: self._check_order(make(sizes)))

    @staticmethod
    def _sizes(form: tuple, values: Sizes) -> Sizes:
        return tuple(values[size[0]] if isinstance(size, tuple) else size for size in form)

    def _check_order(self, call: Any) -> Any:
        orders = self._orders
        if len(call.types) != len(orders) or any(
            strides_by(order, sizes) != tuple(strides) for order, (_, sizes, strides, *_) in zip(orders, call.types)
        ):
            raise Unfit
        return call

    def _call_of(self, tensors: Sequence[Any]) -> Any:
        try:
            return self._call(tuple(tuple(tensor.shape) for tensor in tensors[: self._count]))
        except Exception as why:
            raise self._mispredicted(f"it is another call for these sizes: {why}") from None

    def _mispredicted(self, why: str) -> Mispredicted:
        self.stale = True
        _irregular.add(self._key)
        return Mispredicted(f"{self.name}: {why}")

    def __call__(self, *tensors: Any) -> list[Any]:
        return self._call_of(tensors)(*tensors)

    def derivative(self, incoming: int) -> Callable[..., list[Any]]:
        return lambda *tensors: self._call_of(tensors).derivative(incoming)(*tensors)

    def run(self, incoming: int, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """As the call's for the sizes of `inputs`."""
        call = self._call_of(inputs)
        if not incoming:
            planned = [output[1] if isinstance(output, tuple) else tuple(output.shape) for output in outputs]
            if planned != [tuple(sizes) for _, sizes, *_ in call.types]:
                raise self._mispredicted(f"results are {call.types}, planned were {planned}")
        try:
            return call.run(incoming, inputs, outputs)
        finally:
            self.stale |= call.stale
