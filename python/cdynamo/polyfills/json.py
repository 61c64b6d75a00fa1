"""json's encoder as its Python says it, for what calls the program back or is known when the graph has run.

What is being encoded is told from others by identity, as CPython does by `id`.
"""

from json import encoder as _encoder_module

_INFINITY = float("inf")


def make_encoder(markers, default, encoder, indent, key_separator, item_separator, sort_keys, skipkeys, allow_nan):
    """What `json.encoder.c_make_encoder` gives: a function whose result is a tuple of texts."""

    def floatstr(o):
        if o != o or o == _INFINITY or o == -_INFINITY:
            return _unusual_float(o, allow_nan)
        return float.__repr__(o)

    iterencode = make_iterencode(
        markers, default, encoder, indent, floatstr, key_separator, item_separator, sort_keys, skipkeys, True
    )
    return lambda o, level: tuple(iterencode(o, level))


def _unusual_float(o, allow_nan):
    return _encoder_module.c_make_encoder(None, None, None, None, "", "", False, False, allow_nan)(o, 0)[0]


_unusual_float._dynamo_marked_constant = True  # called while capturing: the error is in the words of the version


def make_iterencode(
    markers, default, encoder, indent, floatstr, key_separator, item_separator, sort_keys, skipkeys, one_shot
):
    if indent is not None and not isinstance(indent, str):
        indent = " " * indent
    opened = []

    def enter(o):
        if markers is not None:
            if any([other is o for other in opened]):
                raise ValueError("Circular reference detected")
            opened.append(o)

    def leave():
        if markers is not None:
            opened.pop()

    def plain(o):
        """The text of what is neither a container nor the program's; None for others."""
        if isinstance(o, str):
            return encoder(o)
        if o is None:
            return "null"
        if o is True:
            return "true"
        if o is False:
            return "false"
        if isinstance(o, int):
            return int.__repr__(o)
        if isinstance(o, float):
            return floatstr(o)
        return None

    def key_text(key):
        """None where the key is left out."""
        if isinstance(key, str):
            return key
        if isinstance(key, float):
            return floatstr(key)
        if key is True or key is False or key is None:
            return plain(key)
        if isinstance(key, int):
            return int.__repr__(key)
        if skipkeys:
            return None
        raise TypeError(f"keys must be str, int, float, bool or None, not {key.__class__.__name__}")

    def encoded(o, level):
        text = plain(o)
        if text is not None:
            yield text
        elif isinstance(o, (list, tuple)):
            yield from encoded_list(o, level)
        elif isinstance(o, dict):
            yield from encoded_dict(o, level)
        else:
            enter(o)
            yield from encoded(default(o), level)
            leave()

    def breaks(level):
        """What stands after the opening bracket, and between items."""
        if indent is None:
            return "", item_separator
        newline = "\n" + indent * level
        return newline, item_separator + newline

    def encoded_list(items, level):
        if not items:
            yield "[]"
            return
        enter(items)
        before, between = breaks(level + 1)
        before = "[" + before
        for value in items:
            text = plain(value)
            if text is not None:
                yield before + text
            else:
                yield before
                yield from encoded(value, level + 1)
            before = between
        if indent is not None:
            yield "\n" + indent * level
        yield "]"
        leave()

    def encoded_dict(items, level):
        if not items:
            yield "{}"
            return
        enter(items)
        yield "{"
        before, between = breaks(level + 1)
        if indent is not None:
            yield before
            before = ""
        for key, value in sorted(items.items()) if sort_keys else items.items():
            name = key_text(key)
            if name is None:
                continue
            if before:
                yield before
            before = between
            yield encoder(name)
            yield key_separator
            yield from encoded(value, level + 1)
        if indent is not None:
            yield "\n" + indent * level
        yield "}"
        leave()

    return encoded
