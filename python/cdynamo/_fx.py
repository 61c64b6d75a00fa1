"""Captured graphs as torch.fx, and backends with torch.compile's contract."""

from __future__ import annotations

import logging
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from cdynamo._config import config
from cdynamo._errors import BackendCompilerFailed, backend_failure
from cdynamo._graph import Graph, Node, Size, map_leaves, reads_size
from cdynamo._numpy_fx import (
    as_array,
    as_number,
    as_tensor,
    call_of,
    is_array,
    is_numpy_constant,
    is_of_numpy,
    on_arrays,
    target_of,
    uses_torch,
)


def to_fx(graph: Graph) -> Any:
    """A `torch.fx.GraphModule` with one node a call of the user; its inputs are tensors, its output is a tuple."""
    import torch
    from torch import fx
    from torch._library.custom_ops import CustomOpDef

    has_arrays = graph.has_arrays or graph.framework == "numpy"
    root = torch.nn.Module()
    made = fx.Graph(root)
    nodes: dict[Node, fx.Node] = {}
    arrays: set[Node] = set()  # what gives arrays or NumPy's scalars
    sizes: dict[str, Any] = {"min": torch.sym_min, "max": torch.sym_max}

    # What torch takes for a dtype; torch.compile's own graphs have the dtype too.
    dtypes: dict[Any, Any] = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}

    def convert(leaf: Any, is_numpy: bool) -> Any:
        if isinstance(leaf, Node):
            return nodes[leaf]
        if isinstance(leaf, Size):
            return _size_node(leaf, sizes)
        if isinstance(leaf, type) and not is_numpy and leaf in dtypes:
            return dtypes[leaf]
        if not isinstance(leaf, type) and not is_numpy_constant(leaf):
            return leaf
        name = f"_constant_{len(root.__dict__)}"  # its text is no expression
        setattr(root, name, leaf)
        return made.create_node("get_attr", name)  # get_attr() would warn of what is no tensor

    for node in graph.placeholders:
        nodes[node] = made.placeholder(_identifier(node.name))
    for i, node in enumerate(graph.placeholders):
        if has_arrays and i in graph.array_inputs | graph.numbers:
            arrays.add(node)
            nodes[node] = made.call_function(as_number if i in graph.numbers else as_array, (nodes[node],))
    tracer = fx.proxy.GraphAppendingTracer(made)  # one for all: an expression has several symbols
    for name, i, dim in graph.symbols:
        proxy = fx.Proxy(nodes[graph.placeholders[i]], tracer)
        sizes[name] = proxy if dim < 0 else proxy.shape[dim]
    for node in graph.nodes:
        if node.op == "placeholder":
            continue
        is_numpy = node.is_numpy or _leaves_an_array(node, arrays)
        converted = partial(convert, is_numpy=is_numpy)
        args = map_leaves(converted, node.args)
        if node.op == "output":
            outputs = enumerate(args[0])
            made.output(
                tuple(made.call_function(as_tensor, (x,)) if i in graph.array_outputs else x for i, x in outputs)
            )
            continue
        op, target = node.op, node.target
        if isinstance(target, CustomOpDef):  # its overload has a name, and a schema that says what it writes to
            target = target._opoverload
        if is_numpy:
            target = target_of(target) if op == "call_function" else target
        elif has_arrays:
            operands: list[Any] = []
            map_leaves(operands.append, [node.args, node.kwargs])
            op, target = call_of(op, target, any(isinstance(x, Node) and x in arrays for x in operands))
        is_part = node.target is operator.getitem and isinstance(node.args[0], Node) and node.args[0] in arrays
        if is_numpy or target is as_array or is_part:
            arrays.add(node)
        nodes[node] = made.create_node(op, target, args, map_leaves(converted, node.kwargs))
        nodes[node].meta.update(node.meta)
        if reads_size(node):
            sizes[node.args[1]] = fx.Proxy(nodes[node], tracer)
    return fx.GraphModule(root, made)


def _leaves_an_array(node: Node, arrays: set[Node]) -> bool:
    """Whether a call of NumPy's gave the array that it got, and so stands for nothing in the graph: asarray, astype."""
    if node.op == "call_method":
        return node.args[0] in arrays and node.target != "__array__"
    return is_of_numpy(node.target) and any(isinstance(arg, Node) and arg in arrays for arg in node.args)


def _identifier(name: str) -> str:
    plain = "".join(c if c.isalnum() else "_" for c in name).strip("_")
    return plain if plain.isidentifier() else f"arg_{plain}".rstrip("_")  # .0[1]: an iterator's item


def _size_node(size: Size, sizes: dict[str, Any]) -> Any:
    """The expression spelt with nodes: the proxies record the arithmetic."""
    value = eval(size.text, {}, sizes)
    return getattr(value, "node", value)


def _annotate(module: Any, example_inputs: Sequence[Any]) -> None:
    """Fills meta["val"] and meta["example_value"] with fake tensors, as torch.compile's own graphs have them.

    Where fake tensors cannot follow (sizes that depend on data), the rest goes without.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    try:
        FakeTensorProp(module, FakeTensorMode(allow_non_fake_inputs=True)).propagate(*example_inputs)
    except Exception as error:
        _LOGGER.debug("a graph for a backend goes without fake values: %s", error)
    for node in module.graph.nodes:
        if "val" in node.meta:
            node.meta["example_value"] = node.meta["val"]


_MOST_NESTED = 8  # backends at work inside of one another: more is a backend that compiles its own results

_LOGGER = logging.getLogger("cdynamo")


def bridge_to(
    backend: Callable, is_eager: bool
) -> Callable[[dict, list, int], tuple[Callable, Callable | None, tuple[int, ...]]]:
    """What the extension calls with a graph's description, the inputs of the call that is being compiled (tensors, then
    the program's dynamic ints), and how many backends are at work on this thread.

    Programs that use torch give their backend GraphModules on tensors, their NumPy parts too; others a `cdynamo.Graph`.
    Returns a callable that takes the graph's inputs and returns its outputs, one that runs the program's calls one by
    one (None: the same), and which of the ints are among the inputs.

    The bridge raises BackendCompilerFailed where the backend fails; with `config.suppress_errors = True` that is
    logged, and the graph is run call by call.
    """

    with_torch = False  # the program has used torch

    def compile_graph(
        description: dict[str, Any], example_inputs: list[Any], nesting: int
    ) -> tuple[Callable, Callable | None, tuple[int, ...]]:
        nonlocal with_torch
        graph = Graph(description)
        tensors = len(description["inputs"])
        example_inputs = example_inputs[:tensors] + [example_inputs[tensors + i] for i in graph.ints]
        modes = _grad_modes(graph)
        finish = _with_grad_modes(modes)
        if sys.modules.get("torch"):  # graphs of numbers alone come without it too
            with_torch = with_torch or description["uses_torch"] or uses_torch(description["globals"])
        if is_eager:
            return finish(graph.forward), None, graph.ints

        def compile_for(inputs: Sequence[Any]) -> Callable:
            with _grad_mode_of_caller(True in modes), _own_saved_tensors():
                return _compile(backend, graph, inputs, with_torch, nesting)

        if graph.symbols:
            return finish(_one_for_each_size(graph, compile_for)), finish(graph.forward), graph.ints
        return finish(compile_for(example_inputs)), finish(graph.forward), graph.ints

    compile_graph.__name__ = _name_of(backend)
    return compile_graph


def _grad_modes(graph: Graph) -> list[bool]:
    """The grad modes that the graph sets, in order.

    What begins without gradients and asks for them later says so first: backends look for gradients where they are
    called with gradients enabled.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    setter = torch._C._set_grad_enabled
    modes = [node.args[0] for node in graph.nodes if node.target is setter]
    if True in modes and not torch.is_grad_enabled():
        graph.nodes.insert(len(graph.placeholders), Node("call_function", "_set_grad_enabled", setter, (False,)))
    return modes


@contextmanager
def _grad_mode_of_caller(enabled: bool) -> Iterator[None]:
    """Who runs a graph to look at it leaves no grad mode of the graph's behind."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    mode = torch.is_grad_enabled()
    try:
        torch._C._set_grad_enabled(mode or enabled)
        yield
    finally:
        torch._C._set_grad_enabled(mode)


def _own_saved_tensors() -> AbstractContextManager:
    """What a backend runs to look at a graph is not the caller's: a checkpoint around the call does not count it."""
    torch = sys.modules.get("torch")
    if torch is None or torch._C._autograd._top_saved_tensors_default_hooks(False) is None:
        return nullcontext()
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)


def _with_grad_modes(modes: list[bool]) -> Callable[[Callable], Callable]:
    """A callable that ends in the graph's last mode, whether the backend has kept what sets it or not.

    Where it fails, the mode is the caller's.
    """

    def finish(compiled: Callable) -> Callable:
        def call(*inputs: Any) -> Any:
            with _grad_mode_of_caller(True in modes):
                outputs = compiled(*inputs)
            torch._C._set_grad_enabled(modes[-1])
            return outputs

        if not modes:
            return compiled
        import torch

        return call

    return finish


def _name_of(backend: Callable) -> str:
    return getattr(backend, "__name__", None) or type(backend).__name__


def _compile(backend: Callable, graph: Graph, inputs: Sequence[Any], with_torch: bool, nesting: int) -> Callable:
    has_arrays = graph.has_arrays or graph.framework == "numpy"
    given: Any = graph
    examples = list(inputs)
    goes_on = config.suppress_errors or _has_generators(inputs)
    if with_torch:
        given = to_fx(graph)
        examples = [as_tensor(value) for value in inputs] if has_arrays else examples
        if not any(map(is_array, examples)):  # of which there is no fake: what the graph writes to it would stay
            _annotate(given, examples)
    try:
        if nesting >= _MOST_NESTED:
            raise RecursionError(f"what it compiles is given to a backend again, {nesting} times over")
        compiled = backend(given, examples)
        if not callable(compiled):
            raise TypeError(f"it returned {type(compiled).__name__}, not a callable")
        return on_arrays(compiled, graph.array_outputs) if with_torch and has_arrays else compiled
    except BackendCompilerFailed as failure:  # of a backend that the backend asked
        if not goes_on:
            raise
        error: Exception = failure
    except Exception as raised:
        error = raised
        if not goes_on:
            raise backend_failure(_name_of(backend), raised) from raised
    _LOGGER.warning("%s; the graph is run call by call", backend_failure(_name_of(backend), error))
    return graph.forward


def _has_generators(inputs: Sequence[Any]) -> bool:
    """Whether a torch.Generator is among the inputs: what traces a graph cannot trace that."""
    torch = sys.modules.get("torch")
    return torch is not None and any(isinstance(value, torch.Generator) for value in inputs)


def _one_for_each_size(graph: Graph, compile_for: Callable[[Sequence[Any]], Callable]) -> Callable:
    """Backends take the sizes of the example inputs for constants, so each set of sizes is compiled on its own.

    Beyond `config.recompile_limit` of them the graph is run call by call.
    """
    compiled: dict[tuple, Callable] = {}

    def call(*inputs: Any) -> Any:
        sizes = tuple(graph.size_values(inputs).values())
        if sizes not in compiled:
            if len(compiled) >= config.recompile_limit:
                return graph.run(inputs)
            compiled[sizes] = compile_for(inputs)
        return compiled[sizes](*inputs)

    return call
