"""What functions under functools.lru_cache say of their caches, asked at each call of compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def number(function: Any, name: str) -> Callable[[], int]:
    """A function that gives `function.cache_info().<name>`, the same one each time."""

    def ask() -> int:
        return getattr(function.cache_info(), name)

    return ask
