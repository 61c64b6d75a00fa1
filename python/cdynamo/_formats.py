"""Format strings taken apart: what `str.format` and `%` read from them, for texts of objects that capture follows.

Each part is (literal, field, conversion, parts of the format specification); field is None after the last literal, or
(position or name, ((is attribute, name or key), ...)).
"""

from __future__ import annotations

import _string
import re


class _Numbers:
    """The positions of fields: all are given, or none is."""

    def __init__(self):
        self.used, self.given = 0, None

    def of(self, first):
        if first != "" and not isinstance(first, int):
            return first
        is_given = first != ""
        if self.given not in (None, is_given):
            raise ValueError("fields with and without a position")
        self.given = is_given
        self.used += 1
        return first if is_given else self.used - 1


def format_parts(text, positional, _numbers=None, _depth=2):
    """Parts of what `str.format` is called on; ValueError if not plain. `positional`: there may be positions."""
    numbers = _numbers or _Numbers()
    if not _depth and "{" in text:
        raise ValueError("nested too deep")
    parts = []
    for literal, field, specification, conversion in _string.formatter_parser(text):
        if field is None:
            parts.append((literal, None, None, ()))
            continue
        first, path = _string.formatter_field_name_split(field)
        first = numbers.of(first)
        if conversion not in (None, "s", "r", "a") or (isinstance(first, int) and not positional):
            raise ValueError(field)
        inner = format_parts(specification, positional, numbers, _depth - 1)
        parts.append((literal, (first, tuple(path)), conversion, inner))
    return tuple(parts)


def percent_parts(text, count):
    """Parts of what `%` is applied to; ValueError where there is more than %s, %r and %a, or not `count` of them."""
    pieces = re.split(r"%(.)", text, flags=re.DOTALL)
    parts, literal, used = [], pieces[0], 0
    for kind, following in zip(pieces[1::2], pieces[2::2], strict=True):
        if kind == "%":
            literal += "%" + following
            continue
        if kind not in "sra":
            raise ValueError(kind)
        parts.append((literal, (used, ()), kind, ()))
        literal, used = following, used + 1
    if used != count or pieces[-1].endswith("%"):
        raise ValueError(text)
    return (*parts, (literal, None, None, ()))
