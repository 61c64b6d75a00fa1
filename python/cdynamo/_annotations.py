"""Annotations that are texts: what typing.get_type_hints looks up to read them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any


def _names(text: str) -> Iterator[str]:
    try:
        code = compile(text.strip(), "<annotation>", "eval")
    except SyntaxError:
        return
    yield from code.co_names
    for constant in code.co_consts:  # list["Part"]
        if isinstance(constant, str):
            yield from _names(constant)


def names_in_hints(annotated: Any) -> list[tuple[dict[str, Any], str]]:
    """The namespaces, and the names in them, that the texts among the annotations of a class or function refer to."""
    if isinstance(annotated, type):
        owners = [
            (vars(base).get("__annotations__", {}), vars(sys.modules.get(base.__module__, sys)))
            for base in annotated.__mro__
        ]
    else:
        owners = [(annotated.__annotations__, annotated.__globals__)]
    texts = [(names, text) for annotations, names in owners for text in annotations.values() if isinstance(text, str)]
    return [(namespace, name) for namespace, text in texts for name in _names(text)]
