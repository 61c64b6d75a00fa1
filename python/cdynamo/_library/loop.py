"""torch.while_loop as one node: its condition and its body are programs of their own, compiled when first run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from cdynamo._graph import Graph
from cdynamo._library.derivative import bits_of, gradients_of, leaf, mask_of
from cdynamo._library.tensors import Refused, hand_over

_MOST = 10  # results, and operands that are floats, that core.library has a bit for


def loop(calls: list[tuple], split: int, examples: tuple, condition: tuple, results: tuple) -> Loop | str:
    """The loop whose turn are these calls (`symbolic/tensors/user_call.h` has their form), or why there is none."""
    try:
        return Loop(calls, split, _ids(examples), _ids(condition), _ids(results))
    except Refused as why:
        return str(why)


def _ids(encoded: Any) -> list[int]:
    """The graph values in what a call is given or gives, which are known to the graph or Python's constants."""
    if isinstance(encoded, dict):
        return _ids(list(encoded.values()))
    if isinstance(encoded, list) or not isinstance(encoded[0], str):
        return [i for item in encoded for i in _ids(item)]
    tag, content = encoded
    if tag in ("int", "unknown"):
        raise Refused("over sizes that change, or objects of Python's")
    return [content] if tag == "value" else _ids(list(content)) if tag in ("tuple", "list", "dict", "slice") else []


class _Program:
    """Calls as a function of tensors; `outside`: the ids of those that come after the `given` ones."""

    def __init__(self, calls: list[tuple], given: Sequence[int], outputs: list[int]) -> None:
        made = {i for call in calls if call[4] is not None for i in _ids(call[4])} | set(given)
        read = [i for call in calls for part in call[2:4] for i in _ids(part)] + outputs
        self.outside = [i for i in dict.fromkeys(read) if i not in made]
        description = {
            "framework": "torch",
            "readable": "",
            "dot": "",
            "inputs": [(value, f"x{value}") for value in [*given, *self.outside]],
            "symbols": [],
            "calls": calls,
            "locations": [None] * len(calls),
            "outputs": outputs,
        }
        self._graph = Graph(description)
        self.module = self._graph.to_fx()
        self._compiled: Callable | None = None

    def call_by_call(self, *tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        return self._graph.run(tensors)

    def compiled(self, *tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        if self._compiled is None:
            from cdynamo._api import optimize

            self._compiled = optimize(self.module)
        return self._compiled(*tensors)


class Loop:
    """As `call.Call` is a call of an operator. Its operands are what is carried into the first turn, and `outside`: the
    ids of the graph values that a turn reads beside."""

    name = __name__ = __qualname__ = "while_loop"
    attributes = ""
    native = None
    stale = False

    def __init__(self, calls: list[tuple], split: int, examples: list[int], condition: list[int], results: list[int]):
        self._condition = _Program(calls[:split], examples, condition)
        self._body = _Program(calls[split:], examples, results)
        if any(i in _made_by(calls[:split]) for i in self._body.outside):
            raise Refused("whose body reads what its condition has computed")
        self.outside = list(dict.fromkeys(self._condition.outside + self._body.outside))
        self._count = len(examples)
        self._of_condition, self._of_body = (
            [self.outside.index(i) for i in program.outside] for program in (self._condition, self._body)
        )
        self._strides: tuple[tuple[int, ...] | None, ...] = ()
        self._are_floats: tuple[bool, ...] = ()
        self.differentiable = -1

    def lay_out(self, strides: tuple[tuple[int, ...] | None, ...], are_floats: tuple[bool, ...]) -> None:
        """How the operands lie (None: row-major), which a turn may ask for, and which of them have a derivative."""
        self._strides, self._are_floats = strides, are_floats
        floats, of_results = sum(are_floats), are_floats[: self._count]
        if floats <= _MOST and self._count <= _MOST:
            self.differentiable = mask_of(i for i, is_float in enumerate(of_results) if is_float)
            self.differentiable |= mask_of(range(_MOST, _MOST + floats))

    def _turns(self, run: str, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        carried, outside = list(tensors[: self._count]), tensors[self._count :]
        condition, body = getattr(self._condition, run), getattr(self._body, run)
        of_condition, of_body = [outside[i] for i in self._of_condition], [outside[i] for i in self._of_body]
        first = True
        while condition(*carried, *of_condition)[0]:
            carried, first = body(*carried, *of_body), False
        return [tensor.clone() for tensor in carried] if first else list(carried)

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if torch.compiler.is_compiling():  # in the body of another one
            return self._captured(tensors)
        return tuple(self._turns("call_by_call", tensors))

    def _captured(self, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        outside = tensors[self._count :]
        of_condition, of_body = [outside[i] for i in self._of_condition], [outside[i] for i in self._of_body]
        condition, body = self._condition.module, self._body.module
        return torch.while_loop(
            lambda *carried: condition(*carried, *of_condition)[0],
            lambda *carried: body(*carried, *of_body),
            tensors[: self._count],
        )

    def _gradients(self, incoming: int, tensors: Sequence, create_graph: bool = False) -> list[torch.Tensor | None]:
        """Of the operands that require grad; all turns are made once more."""
        operands, of = tensors[: len(self._strides)], tensors[len(self._strides) :]
        with torch.enable_grad():
            results = self._turns("compiled", operands)
        return gradients_of(results, dict(zip(bits_of(incoming), of)), operands, create_graph)

    def derivative(self, incoming: int) -> Callable[..., list[torch.Tensor]]:
        """As `derivative.Derivative.function`."""

        def while_loop_backward(*tensors: torch.Tensor) -> list[torch.Tensor]:
            again = torch.is_grad_enabled()
            count = len(self._strides)
            operands = [tensor if again and tensor.requires_grad else leaf(tensor) for tensor in tensors[:count]]
            gradients = self._gradients(incoming, [*operands, *tensors[count:]], create_graph=again)
            wanted = [operand for operand in operands if operand.requires_grad]
            return [torch.zeros_like(o) if g is None else g for o, g in zip(wanted, gradients)]

        return while_loop_backward

    def run(self, incoming: int, inputs: list[torch.Tensor], outputs: Sequence) -> list[torch.Tensor | None]:
        """As `call.Call.run`."""
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            for i, strides in enumerate(self._strides):
                if strides is None:
                    inputs[i] = inputs[i].contiguous()
                elif inputs[i].stride() != strides:
                    laid_out = torch.empty_strided(inputs[i].shape, strides, dtype=inputs[i].dtype)
                    inputs[i] = laid_out.copy_(inputs[i])
            if not incoming:
                return hand_over(inputs, outputs, self._turns("compiled", inputs))
            asked = [output is not None for output in outputs]
            wanted = iter(asked)
            given = [leaf(t) if is_float and next(wanted) else t for t, is_float in zip(inputs, self._are_floats)]
            gradients = iter(self._gradients(incoming, given + inputs[len(given) :]))
            return hand_over(inputs, outputs, [next(gradients) if is_asked else None for is_asked in asked])


def _made_by(calls: list[tuple]) -> set[int]:
    return {i for call in calls if call[4] is not None for i in _ids(call[4])}
