"""A captured graph in Python: what backends written in Python are given, and what `to_fx` makes a GraphModule from."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Node:
    """One call of the user's program, or an input ("placeholder") or the results ("output")."""

    op: str
    name: str
    target: Any
    args: tuple = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    is_numpy: bool = False  # a call of NumPy's

    def __repr__(self) -> str:
        return self.name


@dataclass(eq=False)
class Size:
    """An integer over size symbols, "4*s0 + 1"; `hint` is its value in the call that was captured."""

    text: str
    hint: int

    def __repr__(self) -> str:
        return self.text


class Graph:
    """The calls of a captured program in order. `print_readable()`, `to_dot()`, `to_fx()`, `run(inputs)`."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.nodes: list[Node] = []
        self.symbols: list[tuple[str, int, int]] = []  # name, input, dimension (-1: an int input)
        self.ints: tuple[int, ...] = ()  # which of the program's dynamic ints are inputs: those that calls read
        self.framework: str = description["framework"]  # "torch" or "numpy"
        self.numbers: frozenset[int] = frozenset(description.get("numbers", ()))  # inputs that are floats
        # By number: calls that are NumPy's, inputs and outputs that are its arrays or scalars.
        numpy_calls, self.array_inputs, self.array_outputs = description.get("numpy", (set(), set(), set()))
        self._readable: str = description["readable"]
        self._dot: str = description["dot"]
        self._values: dict[int, Node] = {}
        self._names: dict[str, int] = {}
        for value, name in description["inputs"]:
            self._values[value] = self._add("placeholder", name, name)
        self._add_symbols(description["symbols"], description["calls"])
        for i, (call, location) in enumerate(zip(description["calls"], description["locations"])):
            self._add_call(call, location, i in numpy_calls)
        outputs = tuple(self._value(value) for value in description["outputs"])
        self._add("output", "output", "output", (outputs,))

    def _add_symbols(self, symbols: list[tuple[str, int, int]], calls: list[tuple]) -> None:
        tensors = len(self.nodes)
        read = set().union(*(_names_in(call) for call in calls))
        for name, i, dim in symbols:
            if i < tensors:
                self.symbols.append((name, i, dim))
            elif name in read:
                self.ints += (i - tensors,)
                self.symbols.append((name, len(self.nodes), dim))
                self._add("placeholder", name, name)

    def _value(self, value: int) -> Node:
        if value not in self._values:
            raise RuntimeError(f"the value %{value} of the graph belongs to no call")
        return self._values[value]

    def _add(self, op: str, name: str, target: Any, args: tuple = (), kwargs: dict | None = None) -> Node:
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        node = Node(op, f"{name}_{count}" if count else name, target, args, kwargs or {})
        self.nodes.append(node)
        return node

    def _add_call(self, call: tuple, location: tuple | None, is_numpy: bool = False) -> None:
        kind, target, args, kwargs, result = call
        name = target if kind == "call_method" else getattr(target, "__name__", "call")
        node = self._add(
            kind,
            name,
            target,
            tuple(self._decode(arg) for arg in args),
            {key: self._decode(value) for key, value in kwargs.items()},
        )
        node.is_numpy = is_numpy
        if location:
            file, line, function, text = location
            node.meta["stack_trace"] = f'  File "{file}", line {line}, in {function}\n    {text}\n'
        if result is not None:
            self._bind(node, result)

    def _bind(self, node: Node, encoded: tuple) -> None:
        tag, content = encoded
        if tag == "value":
            self._values[content] = node
        for key, item in keyed_items(encoded, self._decode):
            if item[0] in ("value", "tuple", "list"):
                self._bind(self._add("call_function", "getitem", operator.getitem, (node, key)), item)

    def _decode(self, encoded: tuple) -> Any:
        tag, content = encoded
        if tag == "value":
            return self._value(content)
        if tag == "const":
            return content
        if tag == "int":
            return Size(*content)
        if tag == "tuple":
            return tuple(self._decode(item) for item in content)
        if tag == "list":
            return [self._decode(item) for item in content]
        if tag == "dict":
            return {self._decode(key): self._decode(value) for key, value in content}
        if tag == "slice":
            return slice(*(self._decode(item) for item in content))
        raise RuntimeError(f"an argument has no form in a graph: {content}")

    @property
    def has_arrays(self) -> bool:
        """Whether NumPy's arrays come in, go out or are called."""
        return bool(self.array_inputs or self.array_outputs) or any(node.is_numpy for node in self.nodes)

    @property
    def placeholders(self) -> list[Node]:
        return [node for node in self.nodes if node.op == "placeholder"]

    def print_readable(self, print_output: bool = True) -> str:
        """The graph with types and source lines, one node a line; printed unless told otherwise."""
        if print_output:
            print(self._readable)
        return self._readable

    def to_dot(self) -> str:
        """The graph in Graphviz's language."""
        return self._dot

    def size_values(self, inputs: Sequence[Any]) -> dict[str, int]:
        """The values of the size symbols in a call."""
        return {name: inputs[i] if dim < 0 else inputs[i].shape[dim] for name, i, dim in self.symbols}

    def run(self, inputs: Sequence[Any], sizes: Mapping[str, int] | None = None) -> list[Any]:
        """Executes the calls one by one on `inputs`, in the order of the placeholders; returns the outputs.

        `sizes`: values of the size symbols, where not all of them are sizes of the inputs.
        """
        sizes = {"min": min, "max": max, **(self.size_values(inputs) if sizes is None else sizes)}
        made: dict[Node, Any] = dict(zip(self.placeholders, inputs))

        def value_of(leaf: Any) -> Any:
            if isinstance(leaf, Node):
                return made[leaf]
            return eval(leaf.text, {}, sizes) if isinstance(leaf, Size) else leaf

        for node in self.nodes:
            if node.op == "placeholder":
                continue
            args = map_leaves(value_of, node.args)
            if node.op == "output":
                return list(args[0])
            kwargs = map_leaves(value_of, node.kwargs)
            if node.op == "call_method":
                made[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
            else:
                made[node] = node.target(*args, **kwargs)
                if reads_size(node):
                    sizes[node.args[1]] = made[node]
        raise RuntimeError("the graph has no output")

    def forward(self, *inputs: Any) -> list[Any]:
        """`run` on the inputs one by one, as a GraphModule's."""
        return self.run(inputs)

    __call__ = forward

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def to_fx(self) -> Any:
        """The same calls as a `torch.fx.GraphModule`."""
        from cdynamo._fx import to_fx

        return to_fx(self)


def keyed_items(encoded: tuple, decode: Callable[[tuple], Any]) -> Iterator[tuple[Any, tuple]]:
    """Of a call's encoded result: what it is subscripted by, and the encoded item; nothing of what is no container."""
    tag, content = encoded
    if tag in ("tuple", "list"):
        yield from enumerate(content)
    elif tag == "dict":
        for key, item in content:
            yield decode(key), item


def reads_size(node: Node) -> bool:
    """The call gives the value of a size symbol, which its second argument names: core.read_int."""
    return getattr(node.target, "__name__", "") == "core_read_int"


def _names_in(encoded: Any) -> set[str]:
    """The symbols that the ints of a call's record are made of."""
    if isinstance(encoded, tuple) and len(encoded) == 2 and encoded[0] in ("value", "const", "unknown", "int"):
        return set(re.findall(r"[a-z]+\d+", encoded[1][0])) if encoded[0] == "int" else set()
    if isinstance(encoded, dict):
        encoded = tuple(encoded.values())
    if isinstance(encoded, (tuple, list)):
        return set().union(*map(_names_in, encoded))
    return set()


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """`tree` with `function` applied to what is no tuple, list, dict or slice; a torch.Size is a tuple then."""
    if isinstance(tree, (tuple, list)):
        items = [map_leaves(function, item) for item in tree]
        return items if isinstance(tree, list) else tuple(items)
    if isinstance(tree, dict):
        return {key: map_leaves(function, value) for key, value in tree.items()}
    if isinstance(tree, slice):
        return slice(*(map_leaves(function, part) for part in (tree.start, tree.stop, tree.step)))
    return function(tree)
