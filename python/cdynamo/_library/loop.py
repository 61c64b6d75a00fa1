"""torch.while_loop as one node: its condition and its body are programs of their own, compiled when first run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from cdynamo._graph import Graph
from cdynamo._library.autograd_call import AutogradCall
from cdynamo._library.tensors import Refused


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
        made = _made_by(calls) | set(given)
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


class Loop(AutogradCall):
    """A call of the loop. Its operands are what is carried into the first turn, and `outside`: the
    ids of the graph values that a turn reads beside."""

    name = "while_loop"

    def __init__(self, calls: list[tuple], split: int, examples: list[int], condition: list[int], results: list[int]):
        super().__init__()
        self._condition = _Program(calls[:split], examples, condition)
        self._body = _Program(calls[split:], examples, results)
        if any(i in _made_by(calls[:split]) for i in self._body.outside):
            raise Refused("whose body reads what its condition has computed")
        self.outside = list(dict.fromkeys(self._condition.outside + self._body.outside))
        self._count = len(examples)
        self._of_condition, self._of_body = (
            [self.outside.index(i) for i in program.outside] for program in (self._condition, self._body)
        )

    def _beside(self, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """What the condition, and what the body, reads beside what is carried."""
        outside = tensors[self._count :]
        return [outside[i] for i in self._of_condition], [outside[i] for i in self._of_body]

    def _turns(self, run: str, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        carried, (of_condition, of_body) = list(tensors[: self._count]), self._beside(tensors)
        condition, body = getattr(self._condition, run), getattr(self._body, run)
        first = True
        while condition(*carried, *of_condition)[0]:
            carried, first = body(*carried, *of_body), False
        return [tensor.clone() for tensor in carried] if first else list(carried)

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if torch.compiler.is_compiling():  # in the body of another one
            return self._captured(tensors)
        return tuple(self._turns("call_by_call", tensors))

    def _captured(self, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        of_condition, of_body = self._beside(tensors)
        condition, body = self._condition.module, self._body.module
        return torch.while_loop(
            lambda *carried: condition(*carried, *of_condition)[0],
            lambda *carried: body(*carried, *of_body),
            tensors[: self._count],
        )

    def compute(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        return self._turns("compiled", tensors)


def _made_by(calls: list[tuple]) -> set[int]:
    return {i for call in calls if call[4] is not None for i in _ids(call[4])}
