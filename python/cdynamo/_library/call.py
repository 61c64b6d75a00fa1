"""Operators that the operator table lacks, called in PyTorch's library: what a call gives, learnt from tensors without
content, and the call itself."""

from __future__ import annotations

import functools
import itertools
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._library.custom_ops import CustomOpDef
from torch._ops import OpOverload, OpOverloadPacket

from cdynamo._complex import ComplexCall
from cdynamo._library import without_content
from cdynamo._library.ctc_loss import ctc_loss
from cdynamo._library.derivative import Derivative
from cdynamo._library.tensors import (
    Mispredicted,
    Mode,
    Refused,
    check_results,
    decode,
    empty,
    hand_over,
    is_dense,
    storage_of,
    tensors_of,
    tree_of,
    type_of,
    without_strides,
)
from cdynamo._library.writes import copies_for_writes, is_one_of, overload_of, type_of_copy, written_arguments
from cdynamo._sized_calls import SizedCall, strides_of

_CPU = torch.device("cpu")


_FUNCTIONS = {
    operator.pow: ("aten::pow", torch.pow),
    operator.floordiv: ("aten::floor_divide", operator.floordiv),
    operator.mod: ("aten::remainder", operator.mod),
    torch.ctc_loss: ("aten::ctc_loss", ctc_loss),
    **without_content.FUNCTIONS,
}
_NAMESPACES = ("torch", "torch._C._nn", "torch._C._linalg", "torch._C._fft", "torch._C._special")

# Operators that PyTorch cannot differentiate: backwards call them.
_WITHOUT_DERIVATIVE = ("aten::_standard_gamma_grad", "aten::_dirichlet_grad")

# Operators that read their argument's memory, past what it is a view of.
_OF_MEMORY = ("aten::as_strided", "aten::as_strided_copy", "aten::as_strided_scatter")

# Operators whose first result is the operand at the indices that their second one has: where `dim` stands among the
# arguments, and what it is where it is not given.
_SELECTIONS: dict[str, tuple[int, int | None]] = {
    "aten::sort": (1, -1),
    "aten::topk": (2, -1),
    "aten::kthvalue": (2, -1),
    "aten::mode": (1, -1),
    "aten::median": (1, None),
    "aten::nanmedian": (1, None),
    "aten::cummax": (1, None),
    "aten::cummin": (1, None),
}

# The types of results by the call's signature, where PyTorch's metadata functions say something else; None: unknown.
_observed: dict[str, list[tuple] | None] = {}


class _Watch(Mode):
    """Refuses what a node must not do: write to these operands, draw, have results whose sizes depend on data."""

    def __init__(self, operands: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.storages = {storage_of(operand) for operand in operands}
        self.operators = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.operators += 1
        for tag, why in (
            (torch.Tag.nondeterministic_seeded, "it draws random numbers"),
            (torch.Tag.dynamic_output_shape, "the sizes of its results depend on data"),
            (torch.Tag.data_dependent_output, "its result depends on data"),
        ):
            if tag in func.tags:
                raise Refused(why)
        for i, parameter in enumerate(func._schema.arguments if func._schema.is_mutable else ()):
            if parameter.alias_info is None or not parameter.alias_info.is_write:
                continue
            given = args[i] if i < len(args) else kwargs.get(parameter.name)
            if any(storage_of(tensor) in self.storages for tensor in tensors_of(given)):
                raise Refused("it writes to its arguments")
        return func(*args, **kwargs)


def _operator(kind: str, target: Any) -> tuple[str, Callable]:
    """The name of an operator and what is called; other callables are refused."""
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        return str(target).replace(".", "::", 1), target
    if isinstance(target, CustomOpDef):
        return target._qualname, target
    if isinstance(target, ComplexCall):
        name, _ = _operator(target.kind, target.target)
        return name.replace("::", "::complex_", 1), target
    is_method = kind == "call_method"
    function = getattr(torch, target, None) if is_method else target
    if function in _FUNCTIONS:
        return _FUNCTIONS[function]
    name = target if is_method else getattr(target, "__name__", "")
    if not is_method and target.__module__ not in _NAMESPACES or not hasattr(torch.ops.aten, name):
        raise Refused("it is no operator of PyTorch's")
    if name.endswith("_") and not name.endswith("__"):  # the overload's schema says what it writes to
        return f"aten::{name}", getattr(torch.ops.aten, name)
    return f"aten::{name}", getattr(torch.Tensor, name) if is_method else target


class _Direct(NamedTuple):
    """A call with one result whose arguments are operands and constants, without the checks that can be made once."""

    function: Callable[..., torch.Tensor]
    arguments: list[tuple[int, Any, bool]]  # the operand or -1; the constant; whether it is a complex tensor's pairs
    keywords: dict[str, Any]
    strides: list[tuple]  # of the operands
    expected: tuple  # dtype, sizes, strides and device of the result
    is_complex: bool

    def run(self, inputs: list[torch.Tensor], outputs: Sequence) -> bool:
        """Whether the result is in `outputs`; where it is not, nothing has been written."""
        output = outputs[0]
        if isinstance(output, tuple) or [tensor.stride() for tensor in inputs] != self.strides:
            return False
        args = [
            constant if place < 0 else torch.view_as_complex(inputs[place]) if mark else inputs[place]
            for place, constant, mark in self.arguments
        ]
        result = self.function(*args, **self.keywords)
        if (result.dtype, result.shape, result.stride(), result.device) != self.expected:
            return False
        (torch.view_as_complex(output) if self.is_complex else output).copy_(result)
        return True


class Call:
    """One call of an operator with its constants; called with the tensors it gives the list of its results.

    `numbers` are operands that the operator takes as numbers of Python's, with the type of each: what they are is known
    when the graph runs.
    """

    _ASSUMED = {int: 1, float: 0.25}, {int: 2, float: 0.5}  # what they are while nothing is computed

    def __init__(self, record: tuple, tensors: dict[int, tuple], numbers: dict[int, type]) -> None:
        kind, target, self._args, self._kwargs, _ = record
        self.numbers = numbers
        self._assumed = self._ASSUMED[0]
        self.name, self._function = _operator(kind, target)
        if self.name.split(".")[0] in _OF_MEMORY:
            raise Refused("it reads its argument's memory")
        self.__name__ = self.__qualname__ = self.name.replace("::", "_").replace(".", "_")
        self._ids = list(tensors)
        self.operands = list(tensors.values())  # dtype, sizes, strides, device of each
        devices = {operand[-1] for i, operand in tensors.items() if i not in numbers} or {_CPU}
        if len(devices) > 1:
            raise Refused("its arguments are on different devices")
        (self.device,) = devices
        if numbers and self.device != _CPU:
            raise Refused("a number that a tensor holds is on another device")
        self.writes: list[int] = []  # operands that are written to: the call is given copies, its last results
        self.types: list[tuple] = []  # of each result
        self.tree: tuple = ()
        self._derivative: Derivative | None = None
        self.stale = False
        self._places = self._find_places()
        self._direct: _Direct | None = None
        args, kwargs = self._arguments(self.operands)
        self._signature = f"{self.name} {args} {kwargs}"
        self.attributes = ", ".join(
            [repr(content) for tag, content in self._args if tag == "const"]
            + [f"{key}={content!r}" for key, (tag, content) in self._kwargs.items() if tag == "const"]
        )

    def _find_places(self) -> tuple[list, list] | None:
        """Positional and keyword arguments, each an operand's index or -1 and a constant; None: some are nested."""
        index = {i: place for place, i in enumerate(self._ids)}
        arguments = [*self._args, *self._kwargs.values()]
        if self.numbers or any(tag not in ("value", "const") or type(c) in (tuple, list) for tag, c in arguments):
            return None
        places = [(index[c], None) if tag == "value" else (-1, decode((tag, c), {})) for tag, c in arguments]
        return places[: len(self._args)], list(zip(self._kwargs, places[len(self._args) :]))

    def _find_direct(self) -> _Direct | None:
        """The short way for calls of PyTorch's own operators with one result."""
        if not self.is_pytorch_own or self._places is None or len(self.types) != 1 or self.tree[0] != "tensor":
            return None
        arguments, keywords = self._places
        if any(place >= 0 for _, (place, _) in keywords):
            return None
        function, (dtype, sizes, strides, device) = self._function, self.types[0]
        marks: Sequence[Any] = [None] * len(arguments)
        is_complex = False
        if isinstance(function, ComplexCall):
            marks, is_complex = function.marks, function.complex_results[0]
            function = function.function
            if is_complex:
                dtype, sizes, strides = dtype.to_complex(), sizes[:-1], tuple(stride // 2 for stride in strides[:-1])
        return _Direct(
            function,
            [(place, constant, mark is True) for (place, constant), mark in zip(arguments, marks)],
            {key: constant for key, (_, constant) in keywords},
            [operand[2] for operand in self.operands],
            (dtype, sizes, strides, device),
            is_complex,
        )

    @property
    def is_pytorch_own(self) -> bool:
        """Not a user's, which may keep what it gives and runs only when the program runs it."""
        return self.name.startswith("aten::")

    @property
    def differentiable(self) -> int:
        """The `flags` of its derivative; -2: PyTorch has none."""
        if self.name in _WITHOUT_DERIVATIVE:
            return -2
        return self._derivative.flags if self._derivative else -1

    @property
    def gradient_strides(self) -> tuple[int, ...]:
        """Those of the gradients of all float operands, one after the other; (): all are row-major."""
        strides = self._derivative.strides if self._derivative else {}
        if not strides:
            return ()
        floats = [operand for operand in self.operands if operand[0].is_floating_point]
        row_major = [torch.empty(sizes, device="meta").stride() for _, sizes, *_ in floats]
        return tuple(itertools.chain.from_iterable({**dict(enumerate(row_major)), **strides}.values()))

    def derivative(self, incoming: int) -> Callable[..., list[torch.Tensor]]:
        """The `function` of its derivative."""
        return self._derivative.function(incoming)

    @property
    def selected_dim(self) -> int | None:
        """The dim along which the first result is gathered from the operand, with the second one as indices."""
        position, dim = _SELECTIONS.get(self.name, (0, None))
        if position == 0 or len(self._ids) != 1 or len(self.types) != 2 or self._args[:1] != (("value", self._ids[0]),):
            return None
        given = self._args[position] if len(self._args) > position else self._kwargs.get("dim", ("const", dim))
        rank = len(self.operands[0][1])
        fits = given[0] == "const" and type(given[1]) is int and -rank <= given[1] < rank
        row_major = is_dense(*self.types[0][1:3]) and list(self.types[0][2]) == sorted(self.types[0][2], reverse=True)
        return given[1] % rank if fits and row_major else None

    def _arguments(self, tensors: Sequence[Any]) -> tuple[list, dict]:
        if self._places is not None:
            args = [constant if place < 0 else tensors[place] for place, constant in self._places[0]]
            return args, {k: constant if place < 0 else tensors[place] for k, (place, constant) in self._places[1]}
        by_id = dict(zip(self._ids, tensors))
        for i, kind in self.numbers.items():
            if isinstance(by_id[i], torch.Tensor):
                by_id[i] = self._assumed[kind] if by_id[i].device.type == "meta" else by_id[i].item()
        return [decode(arg, by_id) for arg in self._args], {k: decode(v, by_id) for k, v in self._kwargs.items()}

    def infer(self) -> None:
        """Learns the types of the results, which no number that a tensor holds may change."""
        self._infer()
        if self.numbers:
            types, self._assumed = self.types, self._ASSUMED[1]
            self._infer()
            if types != self.types:
                raise Refused("what it gives depends on a number that a tensor holds")

    def _infer(self) -> None:
        # Results of nothing may lie otherwise than metadata functions say, and real tensors of it cost nothing.
        nothing = self.is_pytorch_own and bool(self.operands) and all(0 in sizes for _, sizes, _, _ in self.operands)
        operands = [empty(operand, real=nothing) for operand in self.operands]
        before = list(zip(map(storage_of, operands), self.operands))
        args, kwargs = self._arguments(operands)
        overload = overload_of(self._function, args, kwargs)
        written = written_arguments(overload, args, kwargs)
        self.writes = [i for i, operand in enumerate(operands) if is_one_of(operand, written)]
        leaves: list[torch.Tensor] = []
        if self.writes and not overload._schema.returns:  # many have no implementation for tensors without content
            self.tree = "none", None
        else:
            unwritten = [operand for operand in operands if not is_one_of(operand, written)]
            with torch.no_grad(), warnings.catch_warnings(), _Watch(unwritten) as watch:
                warnings.simplefilter("ignore")
                result = self._function(*args, **kwargs)
            self.tree = tree_of(result, leaves, [operands[i] for i in self.writes])
            if [(storage_of(tensor), type_of(tensor, self.device)) for tensor in operands] != before:
                raise Refused("it gives its argument other sizes, or other memory")
            if not watch.operators or not (leaves or self.writes):
                raise Refused("it is no operator of PyTorch's")
        check_results(leaves, operands, self.device)
        types = _observed.get(self._signature, [type_of(leaf, self.device) for leaf in leaves])
        if types is None:
            raise Refused("the types of its results are not known before")
        if not all(is_dense(sizes, strides) for _, sizes, strides, _ in types):
            raise Refused("elements of a result overlap or leave gaps")
        self.types = types + [type_of_copy(self.operands[i]) for i in self.writes]
        if not self.writes:
            self._direct = self._find_direct()
            self._derivative = Derivative(self)

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        given = copies_for_writes(self.operands, self.writes, tensors) if self.writes else tensors
        args, kwargs = self._arguments(given)
        result = self._function(*args, **kwargs)
        if self.writes:
            written = [given[i] for i in self.writes]
            return [tensor for tensor in tensors_of(result) if not is_one_of(tensor, written)] + written
        return [result] if type(result) is torch.Tensor else list(tensors_of(result))

    def _are_foreseen(self, results: Sequence[torch.Tensor]) -> bool:
        fresh = len(self.types) - len(self.writes)
        types = self.types[:fresh] + [self.operands[i] for i in self.writes]
        return len(results) == len(types) and all(
            result.dtype is dtype and result.shape == sizes and result.stride() == strides and result.device == device
            for result, (dtype, sizes, strides, device) in zip(results, types)
        )

    def run(self, incoming: int, inputs: list[torch.Tensor], outputs: Sequence) -> list[torch.Tensor | None]:
        """Calls the operator on `inputs`, laid out as in eager, and gives its results to `outputs` (`hand_over`).

        Where `incoming` is not 0: its derivative; outputs that are None are not asked for.
        """
        if self._direct is not None and not incoming and self._direct.run(inputs, outputs):
            return [None]
        exact = True
        for i, (dtype, sizes, strides, device) in enumerate(self.operands):
            if inputs[i].stride() != strides and is_dense(sizes, strides):
                inputs[i] = torch.empty_strided(sizes, strides, dtype=dtype, device=device).copy_(inputs[i])
            exact &= inputs[i].stride() == strides
        if incoming:
            gradients = self._derivative.run(incoming, inputs, [output is not None for output in outputs])
            return self._hand_over(inputs, outputs, gradients)
        results = self(*inputs)
        if not self._are_foreseen(results):
            found = [type_of(result, self.device) for result in results]
            same = [without_strides(type) for type in found] == [without_strides(type) for type in self.types]
            if exact or not same or self.writes:
                self.stale = True
                known = len(found) == len(self.types) and not self.writes
                _observed[self._signature] = found if known else None
                raise Mispredicted(f"{self.name} gave {found}, expected were {self.types}")
        return self._hand_over(inputs, outputs, results)

    def _hand_over(self, inputs, outputs, results) -> list[torch.Tensor | None]:
        if not self.is_pytorch_own:
            results = [r.clone() if r is not None and isinstance(o, tuple) else r for o, r in zip(outputs, results)]
        return hand_over(inputs, outputs, results)


@functools.cache
def fmod_overflows() -> bool:
    """Whether PyTorch's `fmod` is NaN where the quotient of its operands leaves the range of float32."""
    with torch.inference_mode(False), torch.no_grad():
        tiny = torch.full((64,), torch.finfo(torch.float32).tiny, dtype=torch.float32, device="cpu")
        return bool(torch.full_like(tiny, 8.4375).fmod(tiny).isnan().any())


def describe(
    record: tuple, tensors: dict[int, tuple], numbers: dict[int, type], hints: tuple[int, ...] | None
) -> Call | SizedCall | str:
    """The call that a record of `symbolic/tensors/user_call.h` stands for, or why it cannot be a node.

    `tensors` has dtype, sizes, strides and device of the graph values among its arguments, `numbers` the type of those
    of them that are numbers. Where sizes change, `hints` has them, and `tensors` forms of sizes and strides
    (`SizedCall`).
    """

    def make(sizes: tuple[tuple[int, ...], ...]) -> Call:
        types = zip(tensors, tensors.values(), sizes)
        sized = {i: (dtype, own, strides_of(layout, own), device) for i, (dtype, _, layout, device), own in types}
        call = Call(record, sized, numbers)
        call.infer()
        return call

    try:
        if hints is not None:
            return SizedCall(make, [tensor[1] for tensor in tensors.values()], hints)
        call = Call(record, tensors, numbers)
        call.infer()
        return call
    except Refused as why:
        return str(why)
    except Exception as error:  # eager raises its own, or PyTorch does not know either
        return f"what it gives cannot be told beforehand: {type(error).__name__}: {str(error).splitlines()[:1]}"
