"""What captured code has written: the calls that compiled code makes when its graph has run."""

from __future__ import annotations

import warnings
from typing import Any, TextIO


def print_line(file: TextIO | None, separator: str | None, end: str | None, flush: bool, *parts: Any) -> None:
    """`print(*parts, sep=separator, end=end, file=file, flush=flush)`."""
    print(*parts, sep=separator, end=end, file=file, flush=flush)


def write_text(file: TextIO, method: str, *arguments: str) -> None:
    """`file.write(text)`, `file.flush()`."""
    getattr(file, method)(*arguments)


def show_warning(
    message: str | Warning, category: type[Warning], file: str, line: int, namespace: dict[str, Any] | None
) -> None:
    """Shows a warning from that line; with the namespace of its module the filters say whether it is shown."""
    if namespace is None:
        shown = category(message) if isinstance(message, str) else message
        warnings._showwarnmsg_impl(warnings.WarningMessage(shown, category, file, line))
        return
    module = namespace.get("__name__") or "<string>"
    registry = namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, file, line, module, registry)


def raise_decimal_flags(*signals: Any) -> None:
    """Sets flags in the thread's context of decimal: operations raised them that were computed while capturing."""
    import decimal

    flags = decimal.getcontext().flags
    for signal in signals:
        flags[signal] = True
