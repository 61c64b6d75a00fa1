"""Derivatives of library calls: PyTorch's own, learnt from tensors without content."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from cdynamo._library.tensors import (
    CONSTANTS,
    Mode,
    decode,
    empty,
    is_dense,
    lie_alike,
    storage_of,
    tensors_of,
    type_of,
)

if TYPE_CHECKING:
    from cdynamo._library.call import Call


class Program(Mode):
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
        return storage_of(tensor), tensor.storage_offset(), tensor.dtype, tuple(tensor.shape), tensor.stride()

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
        self.fits &= isinstance(tree, CONSTANTS)
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
            result = func(*decode(args, tensors), **{key: decode(item, tensors) for key, item in kwargs})
            for tensor in tensors_of(result):
                tensors[len(tensors) - 1] = tensor
        return [decode(gradient, tensors) for gradient in self._gradients]


# Operators that PyTorch cannot call without content: what they give is as this argument, row-major.
_LIKE_ARGUMENT = {"aten::multilabel_margin_loss_backward": 1}


class _WithoutContent(Mode):
    """Calls of tensors without content, of the operators in this table as well."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        like = _LIKE_ARGUMENT.get(func._schema.name)
        return func(*args, **(kwargs or {})) if like is None else args[like].new_empty(args[like].shape)


class Derivative:
    """The derivative of a call, from its operands, its results where it reads these, and the gradients of its results
    to the gradients of float operands. `incoming` names, by bits, the results whose gradients there are.

    `flags`: a bit for each result that has a gradient, from 10 on for each float operand, 20 where derivatives are
    given the results, from 21 on for each operand that eager does not save for the derivative; -1: not known.
    `strides`: those of the gradients of float operands that are not row-major, by the operand's index among these,
    without the gaps that a view of a complex tensor has.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._num_operands, self._num_results = len(call.operands), len(call.types)
        # By what gradients of results come in; None: the operator is to be computed once more.
        self._programs: dict[int, Program | None] = {}
        self.strides: dict[int, tuple[int, ...]] = {}
        self.flags = self._infer()

    def _infer(self) -> int:
        saved: set[int] = set()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                operands, results, of, gradients, program = self._record(
                    None, lambda tensor: saved.add(storage_of(tensor))
                )
        except Exception:  # PyTorch has no derivative, or cannot tell without content
            return -1
        wanted = [operand for operand in operands if operand.requires_grad]
        known = (
            [type_of(result, self._call.device) for result in results] == self._call.types
            and len(results) <= 10
            and len(gradients) <= 10
        )
        # Which operands have gradients is known where this does not depend on the results that are used.
        if not known or len(of) > 1 and len(gradients) > 1:
            return -1
        self.strides = {
            i: (gradient if is_dense(gradient.shape, gradient.stride()) else torch.empty_like(gradient)).stride()
            for i, (gradient, operand) in enumerate(zip(gradients, wanted))
            if gradient is not None and not self._may_be_row_major(gradient, operand)
        }
        has_gradient = (i for i, gradient in enumerate(gradients) if gradient is not None)
        unsaved = (i for i, operand in enumerate(operands[:40]) if storage_of(operand) not in saved)
        self._programs = {mask_of(of): program}
        of_results = range(len(operands), len(operands) + len(results))
        reads_results = program is not None and not program.read.isdisjoint(of_results)
        return mask_of(of) | mask_of(has_gradient) << 10 | reads_results << 20 | mask_of(unsaved) << 21

    def _may_be_row_major(self, gradient: torch.Tensor, operand: torch.Tensor) -> bool:
        """As the graph makes it. Those of custom operators that are laid out as their operand is may be, too."""
        if self._call.is_pytorch_own:
            return gradient.stride() == torch.empty(gradient.shape, device="meta").stride()
        return gradient.is_contiguous() or lie_alike(gradient, operand)

    def _record(self, incoming: int | None, note: Callable[[torch.Tensor], Any] = lambda saved: None) -> tuple:
        """The derivative from the gradients of the results in `incoming`, or of all, by tensors without content.

        Operands, results, their gradients by index, those of the operands, and the program that computes these.
        """
        operands = [empty(operand, operand[0].is_floating_point) for operand in self._call.operands]
        results = self._results_with_history(operands, note)
        of = {
            i: torch.empty_like(result)
            for i, result in enumerate(results)
            if result.requires_grad and (incoming is None or incoming >> i & 1)
        }
        if not self._may_record():
            with _WithoutContent():
                return operands, results, of, gradients_of(results, of, operands), None
        program = Program([*operands, *results, *of.values()])
        with program:
            gradients = gradients_of(results, of, operands)
        program.end(gradients)
        return operands, results, of, gradients, program if program.fits else None

    def _may_record(self) -> bool:
        """Not what PyTorch's own operators do, which may depend on where operands are, nor what depends on numbers
        that are known when the graph runs."""
        return not self._call.is_pytorch_own and not self._call.numbers

    def _program(self, incoming: int) -> Program | None:
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
            not_given = range(self._num_given(), self._num_operands + self._num_results)
            if program is not None and not program.read.isdisjoint(not_given):
                program = None
            self._programs[incoming] = program
        return self._programs[incoming]

    def _results_with_history(
        self, operands: Sequence[torch.Tensor], note: Callable[[torch.Tensor], Any] = lambda saved: None
    ) -> list[torch.Tensor]:
        """The results; what the derivatives save is given to `note`."""
        # The program's hooks are for tensors that it saves, not for these; autocast was off in the forward.
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda x: (note(x), x)[1], lambda x: x)
        with torch.enable_grad(), torch.autocast(self._call.device.type, enabled=False), hooks:
            return self._call(*operands)

    def function(self, incoming: int) -> Callable[..., list[torch.Tensor]]:
        """As a function of tensors, which may be differentiated in its turn."""

        def backward(*tensors: torch.Tensor) -> list[torch.Tensor]:
            again = torch.is_grad_enabled()  # the gradients are differentiated too
            operands = [
                tensor if again and tensor.requires_grad else leaf(tensor) for tensor in tensors[: self._num_operands]
            ]
            results = self._results_with_history(operands)
            of = dict(zip(bits_of(incoming), tensors[self._num_given() :]))
            gradients = gradients_of(results, of, operands, create_graph=again)
            wanted = [operand for operand in operands if operand.requires_grad]
            return [torch.zeros_like(o) if g is None else g for o, g in zip(wanted, gradients)]

        backward.__name__ = f"{self._call.name.split('::')[-1]}_backward"
        return backward

    def _num_given(self) -> int:
        """How many tensors come before the gradients of the results."""
        return self._num_operands + (self._num_results if self.flags >> 20 & 1 else 0)

    def run(self, incoming: int, inputs: Sequence[torch.Tensor], wanted: Sequence[bool]) -> list[torch.Tensor | None]:
        """The gradients of the float operands, None where one is not wanted or is zero."""
        given, of_results = list(inputs[: self._num_given()]), inputs[self._num_given() :]
        if (program := self._program(incoming)) is not None:
            given += [None] * (self._num_operands + self._num_results - len(given))
            with torch.no_grad(), torch.autocast(self._call.device.type, enabled=False):
                gradients = program([*given, *of_results], self._call.device)
            return [gradient if asked else None for asked, gradient in zip(wanted, gradients)]
        asked = iter(wanted)
        operands = [
            leaf(tensor) if tensor.is_floating_point() and next(asked) else tensor
            for tensor in given[: self._num_operands]
        ]
        results = self._results_with_history(operands)
        gradients = iter(gradients_of(results, dict(zip(bits_of(incoming), of_results)), operands))
        return [next(gradients, None) if asked else None for asked in wanted]


def mask_of(bits: Iterable[int]) -> int:
    return sum(1 << i for i in bits)


def bits_of(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().requires_grad_(tensor.is_floating_point())


def gradients_of(
    results, of: dict[int, torch.Tensor], operands, create_graph: bool = False
) -> list[torch.Tensor | None]:
    """The gradients of the operands that require grad, from those `of` the results."""
    wanted = [operand for operand in operands if operand.requires_grad]
    known = {i: gradient for i, gradient in of.items() if results[i].requires_grad}
    if not wanted or not known:
        return [None] * len(wanted)
    outputs = [results[i] for i in known]
    return list(
        torch.autograd.grad(outputs, wanted, list(known.values()), allow_unused=True, create_graph=create_graph)
    )
