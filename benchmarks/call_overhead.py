"""What a call costs beside its kernels (guards, arguments, graph breaks), and what compiles once though it changes.

    python benchmarks/call_overhead.py

One thread. Times are the least of several rounds. Where kernels are left out, a backend stands for them that gives back
what it gave the first time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

import cdynamo


def microseconds(call: Callable, calls: int = 2000, rounds: int = 9) -> float:
    for _ in range(50):
        call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls)
    return min(times) * 1e6


def without_kernels(graph_module: torch.fx.GraphModule, example_inputs: list) -> Callable:
    """A backend: the results of the first call, for ever."""
    results = graph_module.forward(*example_inputs)
    return lambda *inputs: results


def compiles(work: Callable[[Callable], None], function: Callable) -> int:
    before = cdynamo.counters()["graphs_compiled"]
    work(cdynamo.optimize(function))
    return cdynamo.counters()["graphs_compiled"] - before


class Transformer(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def guards_of_a_transformer() -> float:
    model = Transformer(12).train()  # in evaluation torch takes a path of its own through the layers
    x = torch.randn(1, 4, 16)
    with torch.no_grad():
        compiled = cdynamo.optimize(model, backend=without_kernels)
        whole = microseconds(lambda: compiled(x))
    count = sum(1 for _ in model.parameters()) + 1
    inputs = (torch.empty(1),) * count
    nothing = without_kernels_called(count)
    return whole - microseconds(lambda: nothing(*inputs))


def without_kernels_called(count: int) -> Callable:
    results = (torch.empty(count),)
    return lambda *inputs: results


def eight_tensors() -> tuple[float, float]:
    def total(a, b, c, d, e, f, g, h):
        return a + b + c + d + e + f + g + h

    inputs = [torch.randn(4) for _ in range(8)]
    compiled = cdynamo.optimize(total)
    return microseconds(lambda: compiled(*inputs)), microseconds(lambda: total(*inputs))


@cdynamo.disable
def in_python(x: torch.Tensor) -> None:
    """What the graph breaks for."""


def a_break() -> float:
    """Beyond the two pieces, each called as a function of its own, and what Python runs between."""

    def whole(x):
        y = x * 2
        in_python(y)
        return y + 1

    x = torch.randn(4)
    first, second = cdynamo.optimize(lambda x: x * 2), cdynamo.optimize(lambda y: y + 1)

    def in_pieces():
        y = first(x)
        in_python(y)
        return second(y)

    compiled = cdynamo.optimize(whole)
    return statistics.median(
        microseconds(lambda: compiled(x), rounds=3) - microseconds(in_pieces, rounds=3) for _ in range(5)
    )


def a_break_three_calls_deep() -> float:
    """Beyond a break in a function that calls nothing."""

    def inner(x):
        y = x * 2
        in_python(y)
        return y + 1

    def middle(x):
        return inner(x + 1) * 2

    def outer(x):
        return middle(x - 1) + x

    x = torch.randn(4)
    deep, flat = cdynamo.optimize(outer), cdynamo.optimize(inner)
    return statistics.median(
        microseconds(lambda: deep(x), rounds=3) - microseconds(lambda: flat(x), rounds=3) for _ in range(5)
    )


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        return self.drop(x) * self.steps


def a_counter(compiled: Callable) -> None:
    for _ in range(10):
        compiled(torch.ones(3))


def a_learning_rate(compiled: Callable) -> None:
    for step in range(10):
        compiled(torch.ones(3), 0.1 / (step + 1))


def a_toggled_mode(model: nn.Module) -> Callable[[Callable], None]:
    def work(compiled: Callable) -> None:
        for step in range(10):
            model.train(step % 2 == 0)
            compiled(torch.ones(3))

    return work


def many_additions() -> float:
    def additions(x):
        for i in range(5000):
            x = x + i
        return x

    start = time.perf_counter()
    cdynamo.optimize(additions)(torch.ones(3))
    return time.perf_counter() - start


def main() -> None:
    torch.set_num_threads(1)
    model, toggled = Counting().eval(), Counting()
    toggled.forward = lambda x: toggled.drop(x) * 2
    whole, eager = eight_tensors()
    print(f"guards of a transformer of 12 layers      {guards_of_a_transformer():8.2f} us")
    print(f"a sum of 8 tensors of 4 numbers           {whole:8.2f} us (eager {eager:.2f})")
    print(f"a graph break                             {a_break():8.2f} us")
    print(f"the same three calls deep, more           {a_break_three_calls_deep():8.2f} us")
    print(f"5,000 additions, first call               {many_additions():8.2f} s")
    print(f"a counter attribute, ten calls            {compiles(a_counter, model):8} graphs")
    print(f"a learning rate, ten calls                {compiles(a_learning_rate, lambda w, lr: w - lr * w):8} graphs")
    print(f"train() and eval() in turns, ten calls    {compiles(a_toggled_mode(toggled), toggled):8} graphs")


if __name__ == "__main__":
    main()
