"""Which way a branch goes while its function is being captured."""

from __future__ import annotations

import sys
from typing import Any

from cdynamo._graph import keyed_items

UNKNOWN = object()


class Replay:
    """Runs what a capture has recorded so far on the inputs of the call, with the framework itself.

    What it says of a branch is a guess that the graph's own result confirms or not: where a call has no form that
    can be repeated here (a derivative, say), what depends on it is unknown, and a branch on that is not taken.
    """

    def __init__(self) -> None:
        self._values: dict[int, Any] = {}
        self._done = 0
        self._modes = _GradMode()

    def truth(self, calls: list[tuple], inputs: dict[int, Any], condition: tuple) -> bool:
        """bool(condition). Raises what that raises."""
        for number, value in inputs.items():
            if number not in self._values:
                self._values[number] = _copy(value)
        with self._modes:
            for call in calls[self._done :]:
                self._run(call)
        self._done = len(calls)
        value = self._decode(condition)
        return value is not UNKNOWN and bool(value)

    def _run(self, call: tuple) -> None:
        kind, target, args, kwargs, result = call
        given = [self._decode(arg) for arg in args]
        named = {name: self._decode(value) for name, value in kwargs.items()}
        made: Any = UNKNOWN
        if not any(value is UNKNOWN for value in [*given, *named.values()]):
            try:
                made = (
                    getattr(given[0], target)(*given[1:], **named) if kind == "call_method" else target(*given, **named)
                )
            except Exception:
                made = UNKNOWN
        if result is not None:
            self._bind(result, made)

    def _bind(self, encoded: tuple, made: Any) -> None:
        tag, content = encoded
        if tag == "value":
            self._values[content] = made
        for key, item in keyed_items(encoded, self._decode):
            self._bind(item, UNKNOWN if made is UNKNOWN else made[key])

    def _decode(self, encoded: tuple) -> Any:
        tag, content = encoded
        if tag == "value":
            return self._values.get(content, UNKNOWN)
        if tag == "const":
            return content
        if tag == "int":
            return content[1]
        if tag in ("tuple", "list", "slice"):
            items = [self._decode(item) for item in content]
            if any(item is UNKNOWN for item in items):
                return UNKNOWN
            return {"tuple": tuple, "list": list, "slice": lambda parts: slice(*parts)}[tag](items)
        if tag == "dict":
            items = [(self._decode(key), self._decode(value)) for key, value in content]
            return UNKNOWN if any(UNKNOWN in pair for pair in items) else dict(items)
        return UNKNOWN


class _GradMode:
    """The grad mode as the recorded calls have left it, for the time of a `with`; then the caller's again."""

    def __init__(self) -> None:
        self._mode: bool | None = None

    def __enter__(self) -> None:
        torch = sys.modules.get("torch")
        if torch is None:
            return
        self._outer = torch.is_grad_enabled()
        if self._mode is not None:
            torch._C._set_grad_enabled(self._mode)

    def __exit__(self, *exception: object) -> None:
        torch = sys.modules.get("torch")
        if torch is None:
            return
        self._mode = torch.is_grad_enabled()
        torch._C._set_grad_enabled(self._outer)


def _copy(value: Any) -> Any:
    """So that a call that writes to it leaves the program's own alone."""
    if isinstance(value, float):
        return value
    return value.detach().clone() if hasattr(value, "detach") else value.copy()
