"""`explain`: what a call was compiled to, and where it broke."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cdynamo import _C
from cdynamo._graph import Graph


@dataclass
class GraphBreak:
    """One graph break: a stable id, what stopped, why, and what to write instead."""

    id: str
    what: str
    why: str
    instead: str
    stack: list[tuple[str, int, str, str]]  # file, line, function, source text; outermost first
    report: str

    def __str__(self) -> str:
        return self.report


@dataclass
class Frame:
    """One compiled piece of a function: to its end, or to a graph break."""

    where: str
    end: str
    skip_reason: str
    seconds: float
    nodes: int
    kernels: int
    library_calls: int
    graph: str
    dot: str
    guards: str
    fusion: str
    stages: list[tuple[str, Graph]] = field(default_factory=list)  # "inference", or "forward", "backward", "joint"


@dataclass
class Explanation:
    """What happened in one call. `print` shows graphs, guards and graph breaks in full."""

    frames: list[Frame] = field(default_factory=list)
    breaks: list[GraphBreak] = field(default_factory=list)
    result: Any = None

    @property
    def graphs(self) -> list[str]:
        return [frame.graph for frame in self.frames if frame.nodes and frame.end != "skip"]

    def stage(self, name: str) -> list[Graph]:
        """The compiled graphs of one stage, one a frame: "inference", or of training "joint", "forward", "backward".

        Each has `print_readable()`, `to_dot()`, `run(inputs)` and `to_fx()`.
        """
        return [graph for frame in self.frames for label, graph in frame.stages if label == name]

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.breaks)

    @property
    def kernel_count(self) -> int:
        return sum(frame.kernels for frame in self.frames)

    @property
    def compile_seconds(self) -> float:
        return sum(frame.seconds for frame in self.frames)

    def _add(self, event: dict[str, Any]) -> None:
        self.breaks += [GraphBreak(**record) for record in event["breaks"]]
        names = Frame.__dataclass_fields__
        event = {**event, "stages": [(label, Graph(graph)) for label, graph in event["stages"]]}
        self.frames.append(Frame(**{name: event[name] for name in names}))

    def __str__(self) -> str:
        lines = [
            f"{self.graph_count} graphs, {self.graph_break_count} graph breaks, {self.kernel_count} kernels, "
            f"compiled in {self.compile_seconds * 1e3:.1f} ms"
        ]
        for frame in self.frames:
            lines += [
                "",
                f"{frame.where}: ends in {frame.end}" + (f" ({frame.skip_reason})" if frame.skip_reason else ""),
            ]
            if frame.nodes:
                lines.append(frame.graph.rstrip())
            if frame.guards:
                lines += ["guards:", *(f"  {line}" for line in frame.guards.splitlines())]
        for record in self.breaks:
            lines += ["", record.report.rstrip()]
        return "\n".join(lines)


_listeners: tuple[Explanation, ...] = ()
_listeners_lock = threading.RLock()


def _on_event(event: dict[str, Any]) -> None:
    for explanation in _listeners:
        explanation._add(event)


def _change_listeners(listeners: tuple[Explanation, ...]) -> None:
    global _listeners
    _listeners = listeners
    _C.set_listener(_on_event if listeners else None)


@contextmanager
def listening() -> Iterator[Explanation]:
    """Collects what is compiled while the block runs, in all threads."""
    explanation = Explanation()
    with _listeners_lock:
        _change_listeners((*_listeners, explanation))
    try:
        yield explanation
    finally:
        with _listeners_lock:
            _change_listeners(tuple(other for other in _listeners if other is not explanation))
