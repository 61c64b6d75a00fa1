"""Functions of NumPy's that the operator table lacks, called while a graph runs: what a call gives, learnt from
arrays of the same kinds, and the call itself."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from cdynamo._numpy_complex import complex_array, complex_dtype, pairs_of
from cdynamo._sized_calls import SizedCall, Unfit, strides_of

try:  # numpy.errstate(all="ignore"), which takes longer than most calls
    from numpy._core.umath import _extobj_contextvar, _make_extobj
except ImportError:  # NumPy 1

    def _quiet(function: Callable, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **keywords)

    _error_state = None
else:
    _ignored = _make_extobj(all="ignore")
    _error_state = (_extobj_contextvar, _ignored)

    def _quiet(function: Callable, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        token = _extobj_contextvar.set(_ignored)
        try:
            return function(*args, **keywords)
        finally:
            _extobj_contextvar.reset(token)


# Calls whose results turned out to be of other types than those of other data were: how often, and what they gave the
# last time, which is expected of them from then on. After a few times no node stands for the call.
_seen: dict[str, tuple[int, Any]] = {}
_MOST_TIMES = 3


class Mispredicted(RuntimeError):
    """Results have other types than was foreseen: Python makes the call, then and from then on."""


class _Refused(Exception):
    pass


def _is_dense(array: np.ndarray) -> bool:
    expected = array.itemsize
    for stride, size in sorted((stride, size) for size, stride in zip(array.shape, array.strides) if size != 1):
        if stride != expected:
            return array.size == 0
        expected *= size
    return True


def _gapped(array: np.ndarray) -> np.ndarray | None:
    """The array with a last dim of 2 in which every other number is its own, where it lies as the real parts of complex
    numbers do; else None."""
    if array.ndim == 0 or any(stride % (2 * array.itemsize) for stride in array.strides) or array.size == 0:
        return None
    pairs = np.lib.stride_tricks.as_strided(array, (*array.shape, 2), (*array.strides, array.itemsize))
    return pairs if _is_dense(pairs) else None


def _sample(operand: tuple, fill: Callable[[np.ndarray], None]) -> Any:
    """An operand (kind, dtype, sizes, strides in elements) with other content.

    It has the operand's gaps: an array with gaps is neither row-major nor column-major, by which functions lay out what
    they give.
    """
    kind, dtype, sizes, strides = operand
    if kind.startswith("complex"):  # described by its pairs
        dtype, sizes, strides = complex_dtype(dtype), sizes[:-1], [stride // 2 for stride in strides[:-1]]
    steps = [abs(stride) for stride in strides]
    extent = 1 + sum(step * (size - 1) for step, size in zip(steps, sizes)) if 0 not in sizes else 0
    memory = np.empty(extent, dtype)
    array = np.lib.stride_tricks.as_strided(memory, sizes, [step * memory.itemsize for step in steps])
    fill(array)
    array = array[tuple(slice(None, None, -1 if stride < 0 else 1) for stride in strides)]
    return _as_given(kind.removeprefix("complex "), array)


def _as_given(kind: str, array: np.ndarray) -> Any:
    """What the program has where the graph has an array: itself, NumPy's scalar of it, or Python's number."""
    if kind.startswith("complex"):
        array, kind = complex_array(array), kind.removeprefix("complex ")
    if kind == "array":
        return array
    return array[()] if kind == "scalar" else np.asarray(array).item()


def _rising(array: np.ndarray) -> None:
    array[...] = np.arange(array.size).reshape(array.shape) % 100 if array.dtype != bool else True


def _regular(array: np.ndarray) -> None:
    """Matrices of full rank, positive definite where they are square; 1 elsewhere."""
    array[...] = np.eye(*array.shape[-2:]) * 2 if array.ndim > 1 else 1


def _zero(array: np.ndarray) -> None:
    array[...] = 0


def _decode(encoded: tuple, operands: Sequence[Any]) -> Any:
    tag, content = encoded
    if tag == "value":
        return operands[content]
    if tag == "const":
        return content
    return (tuple if tag == "tuple" else list)(_decode(item, operands) for item in content)


def _is_plain(encoded: tuple) -> bool:
    """An operand, a constant, or a tuple of constants."""
    tag, content = encoded
    return tag in ("value", "const") or tag == "tuple" and all(item[0] == "const" for item in content)


def _leaves(result: Any) -> Iterator[Any]:
    if isinstance(result, (tuple, list)):
        for item in result:
            yield from _leaves(item)
    else:
        yield result


def _tree(result: Any, count: list[int], has_gaps: Sequence[bool]) -> tuple:
    """("array", index), "gapped array", ("scalar", index), or (type, items) of a tuple, a list or a named tuple."""
    if isinstance(result, (tuple, list)) and (type(result) in (tuple, list) or hasattr(result, "_fields")):
        return type(result), [_tree(item, count, has_gaps) for item in result]
    if type(result) is not np.ndarray and not isinstance(result, np.generic):
        raise _Refused
    count[0] += 1
    kind = "array" if type(result) is np.ndarray else "scalar"
    if has_gaps[count[0] - 1]:
        if result.dtype.kind == "c":
            raise _Refused
        return "gapped array", count[0] - 1
    return f"complex {kind}" if result.dtype.kind == "c" else kind, count[0] - 1


def _types(results: Sequence[np.ndarray]) -> list[tuple]:
    return [(result.dtype, result.shape) for result in results]


class NumpyCall:
    """A call of `function`, as `_library.Call` is one of an operator of PyTorch's. Arguments are nested
    ("value", index of an operand), ("const", object), ("tuple", items) and ("list", items); operands are
    (kind, dtype, sizes, strides in elements), of kind "array", "scalar" or "number", or "complex array" and
    "complex scalar", for which their pairs stand, as they do among the results."""

    native = None
    takes_arrays = True
    stale = False
    differentiable = 0

    def __init__(self, function: Callable, args: tuple, keywords: dict[str, tuple], operands: list[tuple]) -> None:
        name = getattr(function, "__qualname__", function.__name__)
        self.name = f"numpy::{name}"
        self.__name__ = self.__qualname__ = f"numpy_{name.replace('.', '_')}"
        self.attributes = ""
        self._function, self._args, self._keywords, self._operands = function, args, keywords, operands
        self._signature = f"{self.name} {args} {keywords} {operands}"
        times, results = _seen.get(self._signature, (0, None))
        if times > _MOST_TIMES:
            raise _Refused
        if not times:
            results = self._learnt()
        leaves = [np.asarray(result) for result in _leaves(results)]
        # By result: the graph has it with a last dim of which it is the first part.
        self._has_gaps = [not _is_dense(leaf) for leaf in leaves]
        self.tree = _tree(results, [0], self._has_gaps)
        leaves = [_gapped(leaf) if gaps else leaf for leaf, gaps in zip(leaves, self._has_gaps)]
        if any(leaf is None for leaf in leaves):
            raise _Refused
        self.has_complex = any(operand[0].startswith("complex") for operand in operands) or any(
            leaf.dtype.kind == "c" for leaf in leaves
        )
        leaves = [pairs_of(leaf) for leaf in leaves]
        self._types = _types(leaves)
        # What the graph is told: dtype, sizes and strides in elements.
        self.types = [(a.dtype, a.shape, tuple(stride // a.itemsize for stride in a.strides)) for a in leaves]
        # As tensors/numpy_call.cpp makes it while a graph runs; None: arguments are to be decoded, results have gaps.
        self.direct = None
        known = all(map(_is_plain, args)) and all(tag == "const" for tag, _ in keywords.values())
        if _error_state and known and not any(self._has_gaps):
            arguments = tuple(
                (content, None) if tag == "value" else (-1, _decode((tag, content), ())) for tag, content in args
            )
            constants = {key: content for key, (_, content) in keywords.items()}
            kinds = tuple(operand[0] for operand in operands)
            self.direct = (function, arguments, constants, kinds, *_error_state)  # True after these: SizedCall's

    def _call(self, operands: Sequence[Any]) -> Any:
        # No compiled code gives the warnings of floating point numbers.
        keywords = {key: _decode(value, operands) for key, value in self._keywords.items()}
        return _quiet(self._function, [_decode(arg, operands) for arg in self._args], keywords)

    def _learnt(self) -> Any:
        for fill in (_regular, _rising, _zero):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    samples = [_sample(operand, fill) for operand in self._operands]
                    results = self._call(samples)
            except Exception:  # of these numbers alone, perhaps
                continue
            # A node's results have memory of their own.
            if any(np.may_share_memory(result, sample) for result in _leaves(results) for sample in samples):
                raise _Refused
            return results
        raise _Refused

    def __call__(self, *arrays: np.ndarray) -> list[Any]:
        given = [_as_given(operand[0], array) for operand, array in zip(self._operands, arrays)]
        results = self._call(given)
        if type(results) is np.ndarray:
            return [pairs_of(results)]
        return [pairs_of(np.asarray(result)) for result in _leaves(results)]

    def run(self, incoming: int, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> list[None]:
        """Writes the results to `outputs`. What the function raises, Python raises when it makes the call again."""
        given = self._call([_as_given(operand[0], array) for operand, array in zip(self._operands, inputs)])
        results = [pairs_of(np.asarray(result)) for result in _leaves(given)]
        if len(results) == len(self._has_gaps):
            results = [_gapped(each) if gaps else each for each, gaps in zip(results, self._has_gaps)]
        if any(each is None for each in results) or _types(results) != self._types:
            self.stale = True
            times = 1 + _seen.get(self._signature, (0, None))[0]
            if any(np.may_share_memory(result, array) for result in _leaves(given) for array in inputs):
                times = _MOST_TIMES + 1  # a node's results have memory of their own
            _seen[self._signature] = times, given if times <= _MOST_TIMES else None
            raise Mispredicted(f"{self.name} gave other results than {self._types}")
        for output, result in zip(outputs, results):
            np.copyto(output, result)
        return [None] * len(outputs)


def written_copy(function: Callable[..., None], array: np.ndarray, *args: Any, **keywords: Any) -> np.ndarray:
    """A copy of `array` after `function`, which writes to its first argument."""
    copy = array.copy()
    function(copy, *args, **keywords)
    return copy


def padded(function: Callable, most: int, whole: tuple[int, ...], *args: Any, **keywords: Any) -> tuple:
    """How many items the results of `function` have, and each with items of no meaning up to `most` of them: what a
    node can stand for where only data say how many there are. Results whose places are in `whole` are as they are."""
    given = function(*args, **keywords)
    results = given if isinstance(given, tuple) else (given,)
    count = [len(result) for place, result in enumerate(results) if place not in whole][0]

    def longer(result: np.ndarray) -> np.ndarray:
        return np.concatenate((result, np.zeros((most - count, *result.shape[1:]), result.dtype)))

    return np.int64(count), *[result if place in whole else longer(result) for place, result in enumerate(results)]


def whole_histogram(sample: Any, bins: Any, range: Any, weights: Any) -> tuple:
    """numpy.histogramdd with the outliers on all sides."""
    counts, edges = np.histogramdd(sample, bins, range, weights=weights)
    return counts.base, edges


def density_histogram(sample: Any, bins: Any, range: Any, weights: Any) -> tuple:
    return np.histogramdd(sample, bins, range, density=True, weights=weights)


def unique_rows(array: np.ndarray, axis: int, **keywords: bool) -> Any:
    """numpy.unique along an axis, which comes first in the values."""
    results = np.unique(array, axis=axis, **keywords)
    if isinstance(results, tuple):
        return np.ascontiguousarray(np.moveaxis(results[0], axis, 0)), *results[1:]
    return np.ascontiguousarray(np.moveaxis(results, axis, 0))


class _HereAlone(type):
    """Of a filter's category: every warning of one thread."""

    thread: int

    def __subclasscheck__(cls, category: type) -> bool:
        return threading.get_ident() == cls.thread


def without_warnings(function: Callable, /, *args: Any, **keywords: Any) -> Any:
    """What the function gives of numbers that never change. A warning is raised, and nothing of the warnings module is
    changed; those of floating-point numbers, which no compiled code gives, are not given."""
    category = _HereAlone("category", (), {"thread": threading.get_ident()})
    before, own = warnings.filters, [("error", None, category, None, 0), *warnings.filters]
    warnings.filters = own  # type: ignore[assignment]
    try:
        with np.errstate(**{kind: "ignore" for kind, then in np.geterr().items() if then == "warn"}):
            return function(*args, **keywords)
    finally:
        if warnings.filters is own:
            warnings.filters = before


_TREATMENTS = ("ignore", "warn", "raise", "call", "print", "log")
_seen_treatments: tuple[Any, int] | None = None  # NumPy 2: the object in its context variable, and what it says


def error_treatments() -> int:
    """How NumPy 2 treats errors of floating-point numbers, as one number; -1 where it has a function for them, or a
    buffer size of the program's."""
    global _seen_treatments
    settings = np._core.umath._extobj_contextvar.get(None)  # type: ignore[attr-defined]
    seen = _seen_treatments
    if seen is None or seen[0] is not settings:
        number = 1
        for treatment in np.geterr().values():
            number = number * len(_TREATMENTS) + _TREATMENTS.index(treatment)
        is_own = np.geterrcall() is not None or np.getbufsize() != 8192
        _seen_treatments = seen = settings, -1 if is_own else number
    return seen[1]


def describe(
    function: Callable, args: tuple, keywords: dict[str, tuple], operands: list[tuple], hints: tuple[int, ...] | None
) -> NumpyCall | SizedCall | None:
    """The call as a node; None where no node can stand for it. Where sizes change, `hints` has them, and `operands` has
    forms of sizes and strides (`SizedCall`)."""

    def make(sizes: tuple[tuple[int, ...], ...]) -> NumpyCall:
        types = zip(operands, sizes)
        sized = [(kind, dtype, own, strides_of(layout, own)) for (kind, dtype, _, layout), own in types]
        return NumpyCall(function, args, keywords, sized)

    try:
        if hints is not None:
            return SizedCall(make, [operand[2] for operand in operands], hints)
        return NumpyCall(function, args, keywords, operands)
    except (_Refused, Unfit):
        return None
