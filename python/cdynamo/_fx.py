"""Captured graphs as torch.fx, and backends with torch.compile's contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cdynamo._config import config
from cdynamo._graph import Graph, Node, Size, map_leaves


def to_fx(graph: Graph) -> Any:
    """A `torch.fx.GraphModule` with one node a call of the user; its output is a tuple."""
    import torch
    from torch import fx

    made = fx.Graph()
    nodes: dict[Node, fx.Node] = {}
    sizes: dict[str, Any] = {"min": torch.sym_min, "max": torch.sym_max}

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, Node):
            return nodes[leaf]
        return _size_node(leaf, sizes) if isinstance(leaf, Size) else leaf

    for node in graph.placeholders:
        nodes[node] = made.placeholder(_identifier(node.name))
    for name, i, dim in graph.symbols:
        proxy = fx.Proxy(nodes[graph.placeholders[i]])
        sizes[name] = proxy if dim < 0 else proxy.size(dim)
    for node in graph.nodes:
        if node.op == "placeholder":
            continue
        args = map_leaves(convert, node.args)
        if node.op == "output":
            made.output(args[0])
            continue
        nodes[node] = made.create_node(node.op, node.target, args, map_leaves(convert, node.kwargs))
        nodes[node].meta.update(node.meta)
    return fx.GraphModule(torch.nn.Module(), made)


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name).strip("_") or "arg"


def _size_node(size: Size, sizes: dict[str, Any]) -> Any:
    """The expression spelt with nodes: the proxies record the arithmetic."""
    value = eval(size.text, {}, sizes)
    return getattr(value, "node", value)


def _annotate(module: Any, example_inputs: Sequence[Any]) -> None:
    """Fills meta["val"] and meta["example_value"] with fake tensors, as torch.compile's own graphs have them."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    FakeTensorProp(module, FakeTensorMode(allow_non_fake_inputs=True)).propagate(*example_inputs)
    for node in module.graph.nodes:
        if "val" in node.meta:
            node.meta["example_value"] = node.meta["val"]


def run_eagerly(graph: Graph, example_inputs: Sequence[Any]) -> Callable:
    """The backend "eager": the captured calls, one by one, in Python."""
    return lambda *inputs: graph.run(inputs)


def bridge_to(backend: Callable, is_eager: bool) -> Callable[[dict, list], Callable]:
    """What the extension calls with a graph's description and the inputs of the call that is being compiled.

    Programs that use torch give their backend a GraphModule, others a `cdynamo.Graph`. Returns a callable that takes
    the graph's inputs and returns its outputs.
    """

    def compile_graph(description: dict[str, Any], example_inputs: list[Any]) -> Callable:
        graph = Graph(description)
        if is_eager:
            return backend(graph, example_inputs)
        if graph.symbols:
            return _one_for_each_size(graph, lambda inputs: _compile(backend, graph, inputs))
        return _compile(backend, graph, example_inputs)

    return compile_graph


def _compile(backend: Callable, graph: Graph, example_inputs: Sequence[Any]) -> Callable:
    if graph.framework == "torch":
        module = to_fx(graph)
        _annotate(module, example_inputs)
        compiled = backend(module, list(example_inputs))
    else:
        compiled = backend(graph, example_inputs)
    if not callable(compiled):
        raise TypeError(f"the backend {backend!r} returned {type(compiled).__name__}, not a callable")
    return compiled


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
