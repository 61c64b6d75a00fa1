"""Operators that the operator table lacks, called in PyTorch's library: what a call gives, learnt from tensors without
content, and the call itself."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch._library.custom_ops import CustomOpDef
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils._python_dispatch import TorchDispatchMode

from cdynamo._complex import ComplexCall

_CONSTANTS = (type(None), bool, int, float, complex, str)
_CONSTANTS += (torch.dtype, torch.layout, torch.memory_format, torch.device)
_CPU = torch.device("cpu")
_FUNCTIONS = {operator.pow: torch.pow}
_NAMESPACES = ("torch", "torch._C._nn", "torch._C._linalg", "torch._C._fft", "torch._C._special")

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


class Refused(Exception):
    """The call is left to Python; the text says why."""


class Mispredicted(RuntimeError):
    """Results have other types than was foreseen: Python makes the call again, the next compilation knows better."""


class _Mode(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else all of torch._dynamo is imported


class _Watch(_Mode):
    """Refuses what a node must not do: write to its operands, draw, have results whose sizes depend on data."""

    def __init__(self, operands: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.storages = {_storage(operand) for operand in operands}
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
            if any(_storage(tensor) in self.storages for tensor in tensors_of(given)):
                raise Refused("it writes to its arguments")
        return func(*args, **kwargs)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def tensors_of(tree: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested tuples and lists, in order."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from tensors_of(item)


def _is_dense(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Elements neither overlap nor leave gaps."""
    expected = 1
    for stride, size in sorted((stride, size) for size, stride in zip(sizes, strides) if size != 1):
        if stride != expected and 0 not in sizes:
            return False
        expected *= size
    return True


def _lie_alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Tensors of one shape, the strides of dims of one element aside."""
    return all(size == 1 or stride == other for size, stride, other in zip(a.shape, a.stride(), b.stride()))


def _type_of(tensor: torch.Tensor, device: torch.device) -> tuple:
    """dtype, sizes, strides and device; tensors without content stand for those of `device`."""
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), device if tensor.device.type == "meta" else tensor.device


def _without_strides(type: tuple) -> tuple:
    dtype, sizes, _, device = type
    return dtype, sizes, device


def _empty(operand: tuple, requires_grad: bool = False, real: bool = False) -> torch.Tensor:
    dtype, sizes, strides, device = operand
    device = device if real else "meta"
    return torch.empty_strided(sizes, strides, dtype=dtype, device=device, requires_grad=requires_grad)


def _operator(kind: str, target: Any) -> tuple[str, Callable]:
    """The name of an operator and what is called; other callables are refused."""
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        return str(target).replace(".", "::", 1), target
    if isinstance(target, CustomOpDef):
        return target._qualname, target
    if isinstance(target, ComplexCall):
        name, _ = _operator(target.kind, target.target)
        return name.replace("::", "::complex_", 1), target
    target = _FUNCTIONS.get(target, target) if kind == "call_function" else target
    is_method = kind == "call_method"
    name = target if is_method else getattr(target, "__name__", "")
    if not is_method and target.__module__ not in _NAMESPACES or not hasattr(torch.ops.aten, name):
        raise Refused("it is no operator of PyTorch's")
    if name.endswith("_") and not name.endswith("__"):
        raise Refused("it writes to its arguments")
    return f"aten::{name}", getattr(torch.Tensor, name) if is_method else target


def _decode(encoded: tuple, tensors: dict[int, Any]) -> Any:
    tag, content = encoded
    if tag == "value":
        return tensors[content]
    if tag in ("tuple", "list"):
        return (tuple if tag == "tuple" else list)(_decode(item, tensors) for item in content)
    if tag == "const" and isinstance(content, (tuple, list)):
        return type(content)([_decode(("const", item), tensors) for item in content])
    if tag != "const" or not isinstance(content, _CONSTANTS):
        raise Refused("an argument is of a kind that nodes do not hold")
    return content


def _tree_of(result: Any, leaves: list[torch.Tensor]) -> tuple:
    """Nested results: ("tensor", index), ("none", None), or (type, items) of a tuple, a list or a named one."""
    if type(result) is torch.Tensor:
        leaves.append(result)
        return "tensor", len(leaves) - 1
    if result is None:
        return "none", None
    if type(result) in (tuple, list) or type(result).__module__ == "torch.return_types":
        return type(result), [_tree_of(item, leaves) for item in result]
    raise Refused(f"a result is a {type(result).__name__}")


def hand_over(inputs: Sequence[torch.Tensor], outputs: Sequence, results: Iterable) -> list[torch.Tensor | None]:
    """A call's results, None being zeros, as its outputs want them: copied into a tensor over planned memory, or, where
    an output is a type, a tensor of that type whose memory is its own."""
    taken: set[int] = set()
    given: list[torch.Tensor | None] = []
    for output, result in zip(outputs, results):
        if isinstance(output, tuple):
            dtype, sizes, strides, device = output
            taken = taken or {_storage(tensor) for tensor in inputs}
            if result is None:
                result = torch.empty_strided(sizes, strides, dtype=dtype, device=device).zero_()
            elif result.stride() != strides or result.dtype != dtype or _storage(result) in taken:
                result = torch.empty_strided(sizes, strides, dtype=dtype, device=device).copy_(result)
            elif result._is_view():  # autograd would look at what it is one of
                result = result.data
            taken.add(_storage(result))
            given.append(result)
            continue
        given.append(None)
        if isinstance(output, torch.Tensor):
            output.zero_() if result is None else output.copy_(result)
    return given


def _check_results(results: Sequence[torch.Tensor], operands: Sequence[torch.Tensor], device: torch.device) -> None:
    seen = {_storage(operand) for operand in operands}
    for result in results:
        if result.layout != torch.strided or result.is_conj() or result.is_neg() or result.requires_grad:
            raise Refused("a result is no plain tensor")
        if _type_of(result, device)[-1] != device:
            raise Refused("a result is on another device")
        if _storage(result) in seen:
            raise Refused("a result shares memory with an argument or with another result")
        seen.add(_storage(result))


class _Program(_Mode):
    """The operators that a derivative calls, recorded from tensors without content. Called with others, it computes the
    gradients from them; the operator itself need not be computed again.

    `known`: the tensors that a call is given. `fits`: nothing else is read, nothing is written to or drawn.
    """

    def __init__(self, known: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.fits = True
        self.read: set[int] = set()  # of `known`, by index
        self._steps: list[tuple[Callable, tuple, list[tuple]]] = []
        self._gradients: list[tuple] = []
        self._held: list[Any] = []  # a storage that is freed might come to be another's
        self._places: dict[tuple, int] = {}
        self._count = 0
        self._note(list(known))

    @staticmethod
    def _key(tensor: torch.Tensor) -> tuple:
        return _storage(tensor), tensor.storage_offset(), tensor.dtype, tuple(tensor.shape), tensor.stride()

    def _note(self, tree: Any) -> None:
        self._held.append(tree)
        for tensor in tensors_of(tree):
            self._places.setdefault(self._key(tensor), self._count)
            self._count += 1

    def _encode(self, tree: Any) -> tuple:
        if isinstance(tree, torch.Tensor):
            place = self._places.get(self._key(tree))
            self.fits &= place is not None
            self.read.add(place)
            return "value", place
        if type(tree) in (tuple, list):
            return type(tree).__name__, [self._encode(item) for item in tree]
        if isinstance(tree, torch.device) and tree.type == "meta":  # of a tensor that the derivative makes
            return "value", -1
        self.fits &= isinstance(tree, _CONSTANTS)
        return "const", tree

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.fits &= torch.Tag.nondeterministic_seeded not in func.tags and not func._schema.is_mutable
        self._steps.append((func, self._encode(args), [(key, self._encode(item)) for key, item in kwargs.items()]))
        result = func(*args, **kwargs)
        self._note(result)
        return result

    def end(self, gradients: Iterable[torch.Tensor | None]) -> None:
        self._gradients = [self._encode(gradient) for gradient in gradients]
        self._held = []

    def __call__(self, known: Sequence[torch.Tensor | None], device: torch.device) -> list[torch.Tensor | None]:
        tensors: dict[int, Any] = {-1: device, **dict(enumerate(known))}
        for func, args, kwargs in self._steps:
            result = func(*_decode(args, tensors), **{key: _decode(item, tensors) for key, item in kwargs})
            for tensor in tensors_of(result):
                tensors[len(tensors) - 1] = tensor
        return [_decode(gradient, tensors) for gradient in self._gradients]


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
        self._numbers = numbers
        self._assumed = self._ASSUMED[0]
        self.name, self._function = _operator(kind, target)
        self.__name__ = self.__qualname__ = self.name.replace("::", "_").replace(".", "_")
        self._ids = list(tensors)
        self._operands = list(tensors.values())  # dtype, sizes, strides, device of each
        devices = {operand[-1] for i, operand in tensors.items() if i not in numbers} or {_CPU}
        if len(devices) > 1:
            raise Refused("its arguments are on different devices")
        (self._device,) = devices
        if numbers and self._device != _CPU:
            raise Refused("a number that a tensor holds is on another device")
        self.types: list[tuple] = []  # of each result
        self.tree: tuple = ()
        # A bit for each result that has a gradient, from 10 on for each float operand, 20 where derivatives are given
        # the results, from 21 on for each operand that eager does not save for the derivative; -1: not known.
        self.differentiable = -1
        # The derivatives, by what gradients of results come in (bits); null: the operator is to be computed once more.
        self._programs: dict[int, _Program | None] = {}
        self.stale = False
        self._places = self._find_places()
        self._direct: _Direct | None = None
        args, kwargs = self._arguments(self._operands)
        self._signature = f"{self.name} {args} {kwargs}"
        self.attributes = ", ".join(
            [repr(content) for tag, content in self._args if tag == "const"]
            + [f"{key}={content!r}" for key, (tag, content) in self._kwargs.items() if tag == "const"]
        )

    def _find_places(self) -> tuple[list, list] | None:
        """Positional and keyword arguments, each an operand's index or -1 and a constant; None: some are nested."""
        index = {i: place for place, i in enumerate(self._ids)}
        arguments = [*self._args, *self._kwargs.values()]
        if self._numbers or any(tag not in ("value", "const") or type(c) in (tuple, list) for tag, c in arguments):
            return None
        places = [(index[c], None) if tag == "value" else (-1, _decode((tag, c), {})) for tag, c in arguments]
        return places[: len(self._args)], list(zip(self._kwargs, places[len(self._args) :]))

    def _find_direct(self) -> _Direct | None:
        """The short way for calls of PyTorch's own operators with one result."""
        if self._places is None or len(self.types) != 1 or self.tree[0] != "tensor":
            return None
        if not self.name.startswith("aten::"):  # a user's operator may keep what it gives
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
            [operand[2] for operand in self._operands],
            (dtype, sizes, strides, device),
            is_complex,
        )

    @property
    def selected_dim(self) -> int | None:
        """The dim along which the first result is gathered from the operand, with the second one as indices."""
        position, dim = _SELECTIONS.get(self.name, (0, None))
        if position == 0 or len(self._ids) != 1 or len(self.types) != 2 or self._args[:1] != (("value", self._ids[0]),):
            return None
        given = self._args[position] if len(self._args) > position else self._kwargs.get("dim", ("const", dim))
        rank = len(self._operands[0][1])
        fits = given[0] == "const" and type(given[1]) is int and -rank <= given[1] < rank
        row_major = _is_dense(*self.types[0][1:3]) and list(self.types[0][2]) == sorted(self.types[0][2], reverse=True)
        return given[1] % rank if fits and row_major else None

    def _arguments(self, tensors: Sequence[Any]) -> tuple[list, dict]:
        if self._places is not None:
            args = [constant if place < 0 else tensors[place] for place, constant in self._places[0]]
            return args, {k: constant if place < 0 else tensors[place] for k, (place, constant) in self._places[1]}
        by_id = dict(zip(self._ids, tensors))
        for i, kind in self._numbers.items():
            if isinstance(by_id[i], torch.Tensor):
                by_id[i] = self._assumed[kind] if by_id[i].device.type == "meta" else by_id[i].item()
        return [_decode(arg, by_id) for arg in self._args], {k: _decode(v, by_id) for k, v in self._kwargs.items()}

    def infer(self) -> None:
        """Learns the types of the results, which no number that a tensor holds may change."""
        self._infer()
        if self._numbers:
            types, self._assumed = self.types, self._ASSUMED[1]
            self._infer()
            if types != self.types:
                raise Refused("what it gives depends on a number that a tensor holds")

    def _infer(self) -> None:
        # Results of nothing may lie otherwise than metadata functions say, and real tensors of it cost nothing.
        nothing = bool(self._operands) and all(0 in sizes for _, sizes, _, _ in self._operands)
        nothing = nothing and self.name.startswith("aten::")  # a user's operator runs when the program runs it
        operands = [_empty(operand, real=nothing) for operand in self._operands]
        args, kwargs = self._arguments(operands)
        with torch.no_grad(), warnings.catch_warnings(), _Watch(operands) as watch:
            warnings.simplefilter("ignore")
            result = self._function(*args, **kwargs)
        leaves: list[torch.Tensor] = []
        self.tree = _tree_of(result, leaves)
        if not watch.operators or not leaves:
            raise Refused("it is no operator of PyTorch's")
        _check_results(leaves, operands, self._device)
        types = _observed.get(self._signature, [_type_of(leaf, self._device) for leaf in leaves])
        if types is None:
            raise Refused("the types of its results are not known before")
        if not all(_is_dense(sizes, strides) for _, sizes, strides, _ in types):
            raise Refused("elements of a result overlap or leave gaps")
        self.types = types
        self._direct = self._find_direct()
        self.differentiable = self._infer_gradients()

    def _infer_gradients(self) -> int:
        saved: set[int] = set()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                operands, results, of, gradients, program = self._record(
                    None, lambda tensor: saved.add(_storage(tensor))
                )
        except Exception:  # PyTorch has no derivative, or cannot tell without content
            return -1
        wanted = [operand for operand in operands if operand.requires_grad]
        known = (
            [_type_of(result, self._device) for result in results] == self.types
            and len(results) <= 10
            and len(gradients) <= 10
            and all(g is None or self._may_be_row_major(g, operand) for g, operand in zip(gradients, wanted))
        )
        # Which operands have gradients is known where this does not depend on the results that are used.
        if not known or len(of) > 1 and len(gradients) > 1:
            return -1
        has_gradient = (i for i, gradient in enumerate(gradients) if gradient is not None)
        unsaved = (i for i, operand in enumerate(operands[:40]) if _storage(operand) not in saved)
        self._programs = {_mask(of): program}
        of_results = range(len(operands), len(operands) + len(results))
        reads_results = program is not None and not program.read.isdisjoint(of_results)
        return _mask(of) | _mask(has_gradient) << 10 | reads_results << 20 | _mask(unsaved) << 21

    def _may_be_row_major(self, gradient: torch.Tensor, operand: torch.Tensor) -> bool:
        """As the graph makes it. Those of custom operators that are laid out as their operand is may be, too."""
        if self.name.startswith("aten::"):
            return gradient.stride() == torch.empty(gradient.shape, device="meta").stride()
        return gradient.is_contiguous() or _lie_alike(gradient, operand)

    def _record(self, incoming: int | None, note: Callable[[torch.Tensor], Any] = lambda saved: None) -> tuple:
        """The derivative from the gradients of the results in `incoming`, or of all, by tensors without content.

        Operands, results, their gradients by index, those of the operands, and the program that computes these.
        """
        operands = [_empty(operand, operand[0].is_floating_point) for operand in self._operands]
        results = self._results_with_history(operands, note)
        of = {
            i: torch.empty_like(result)
            for i, result in enumerate(results)
            if result.requires_grad and (incoming is None or incoming >> i & 1)
        }
        if not self._may_record():
            return operands, results, of, _gradients(results, of, operands), None
        program = _Program([*operands, *results, *of.values()])
        with program:
            gradients = _gradients(results, of, operands)
        program.end(gradients)
        return operands, results, of, gradients, program if program.fits else None

    def _may_record(self) -> bool:
        """Not what PyTorch's own operators do, which may depend on where operands are, nor what depends on numbers
        that are known when the graph runs."""
        return not self.name.startswith("aten::") and not self._numbers

    def _program(self, incoming: int) -> _Program | None:
        """It reads results where those of all results' gradients do."""
        if not self._may_record():
            return None
        if incoming not in self._programs:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    program = self._record(incoming)[-1]
            except Exception:
                program = None
            start = self._num_given()
            if program is not None and any(start <= i < len(self._ids) + len(self.types) for i in program.read):
                program = None
            self._programs[incoming] = program
        return self._programs[incoming]

    def _results_with_history(
        self, operands: Sequence[torch.Tensor], note: Callable[[torch.Tensor], Any] = lambda saved: None
    ) -> list[torch.Tensor]:
        """The results; what the derivatives save is given to `note`."""
        args, kwargs = self._arguments(operands)
        # The program's hooks are for tensors that it saves, not for these; autocast was off in the forward.
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda x: (note(x), x)[1], lambda x: x)
        with torch.enable_grad(), torch.autocast(self._device.type, enabled=False), hooks:
            return list(tensors_of(self._function(*args, **kwargs)))

    def derivative(self, incoming: int) -> Callable[..., list[torch.Tensor]]:
        """From operands and the gradients of the results in `incoming` (bits) to the gradients of float operands."""

        def backward(*tensors: torch.Tensor) -> list[torch.Tensor]:
            again = torch.is_grad_enabled()  # the gradients are differentiated too
            operands = [
                tensor if again and tensor.requires_grad else _leaf(tensor) for tensor in tensors[: len(self._ids)]
            ]
            results = self._results_with_history(operands)
            of = dict(zip(_bits(incoming), tensors[self._num_given() :]))
            gradients = _gradients(results, of, operands, create_graph=again)
            wanted = [operand for operand in operands if operand.requires_grad]
            return [torch.zeros_like(o) if g is None else g for o, g in zip(wanted, gradients)]

        backward.__name__ = f"{self.name.split('::')[-1]}_backward"
        return backward

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        args, kwargs = self._arguments(tensors)
        result = self._function(*args, **kwargs)
        return [result] if type(result) is torch.Tensor else list(tensors_of(result))

    def _are_foreseen(self, results: Sequence[torch.Tensor]) -> bool:
        return len(results) == len(self.types) and all(
            result.dtype is dtype and result.shape == sizes and result.stride() == strides and result.device == device
            for result, (dtype, sizes, strides, device) in zip(results, self.types)
        )

    def run(self, incoming: int, inputs: list[torch.Tensor], outputs: Sequence) -> list[torch.Tensor | None]:
        """Calls the operator on `inputs`, laid out as in eager, and gives its results to `outputs` (`hand_over`).

        Where `incoming` is not 0: the derivative, as `derivative` has it; outputs that are None are not asked for.
        """
        if self._direct is not None and not incoming and self._direct.run(inputs, outputs):
            return [None]
        exact = True
        for i, (dtype, sizes, strides, device) in enumerate(self._operands):
            if inputs[i].stride() != strides and _is_dense(sizes, strides):
                inputs[i] = torch.empty_strided(sizes, strides, dtype=dtype, device=device).copy_(inputs[i])
            exact &= inputs[i].stride() == strides
        if incoming:
            return self._run_backward(incoming, inputs, outputs)
        results = self(*inputs)
        if not self._are_foreseen(results):
            found = [_type_of(result, self._device) for result in results]
            same = [_without_strides(type) for type in found] == [_without_strides(type) for type in self.types]
            if exact or not same:
                self.stale = True
                _observed[self._signature] = found if len(found) == len(self.types) else None
                raise Mispredicted(f"{self.name} gave {found}, expected were {self.types}")
        return self._hand_over(inputs, outputs, results)

    def _hand_over(self, inputs, outputs, results) -> list[torch.Tensor | None]:
        if not self.name.startswith("aten::"):  # a user's operator may keep what it gives
            results = [r.clone() if r is not None and isinstance(o, tuple) else r for o, r in zip(outputs, results)]
        return hand_over(inputs, outputs, results)

    def _num_given(self) -> int:
        """Of what a derivative is given, how many tensors come before the gradients of the results."""
        return len(self._ids) + (len(self.types) if self.differentiable >> 20 & 1 else 0)

    def _run_backward(self, incoming: int, inputs: list[torch.Tensor], outputs: Sequence) -> list[torch.Tensor | None]:
        given, of_results = inputs[: self._num_given()], inputs[self._num_given() :]
        if (program := self._program(incoming)) is not None:
            given += [None] * (len(self._ids) + len(self.types) - len(given))
            with torch.no_grad(), torch.autocast(self._device.type, enabled=False):
                gradients = program([*given, *of_results], self._device)
            return self._hand_over(inputs, outputs, [g if o is not None else None for o, g in zip(outputs, gradients)])
        asked = iter(outputs)
        operands = [
            _leaf(tensor) if tensor.is_floating_point() and next(asked) is not None else tensor
            for tensor in inputs[: len(self._ids)]
        ]
        results = self._results_with_history(operands)
        gradients = _gradients(results, dict(zip(_bits(incoming), of_results)), operands)
        found = iter(gradients)
        return self._hand_over(inputs, outputs, [None if output is None else next(found, None) for output in outputs])


def _mask(bits: Iterable[int]) -> int:
    return sum(1 << i for i in bits)


def _bits(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().requires_grad_(tensor.is_floating_point())


def _gradients(results, of: dict[int, torch.Tensor], operands, create_graph: bool = False) -> list[torch.Tensor | None]:
    """The gradients of the operands that require grad, from those `of` the results."""
    wanted = [operand for operand in operands if operand.requires_grad]
    known = {i: gradient for i, gradient in of.items() if results[i].requires_grad}
    if not wanted or not known:
        return [None] * len(wanted)
    outputs = [results[i] for i in known]
    return list(
        torch.autograd.grad(outputs, wanted, list(known.values()), allow_unused=True, create_graph=create_graph)
    )


@functools.cache
def fmod_overflows() -> bool:
    """Whether PyTorch's `fmod` is NaN where the quotient of its operands leaves the range of float32."""
    with torch.inference_mode(False), torch.no_grad():
        tiny = torch.full((64,), torch.finfo(torch.float32).tiny, dtype=torch.float32, device="cpu")
        return bool(torch.full_like(tiny, 8.4375).fmod(tiny).isnan().any())


def describe(record: tuple, tensors: dict[int, tuple], numbers: dict[int, type]) -> Call | str:
    """The call that a record of `symbolic/tensors/user_call.h` stands for, or why it cannot be a node.

    `tensors` has dtype, sizes, strides and device of the graph values among its arguments, `numbers` the type of those
    of them that are numbers.
    """
    try:
        call = Call(record, tensors, numbers)
        call.infer()
        return call
    except Refused as why:
        return str(why)
    except Exception as error:  # eager raises its own, or PyTorch does not know either
        return f"what it gives cannot be told beforehand: {type(error).__name__}: {str(error).splitlines()[:1]}"
