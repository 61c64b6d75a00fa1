"""Instances and classes that are made after a graph has run."""

from __future__ import annotations

import types
import typing


def with_attributes(instance, attributes, slots):
    """Gives a new `instance` what its `__dict__` and slots hold: it is whole before a dict or set asks for its hash."""
    if attributes:
        object.__getattribute__(instance, "__dict__").update(attributes)
    for name, value in slots.items():
        object.__setattr__(instance, name, value)
    return instance


def typed_named_tuple(name, fields, names):
    """The class of a statement `class name(typing.NamedTuple)`: `fields` its annotations, `names` the rest of its
    body."""
    body = {**dict(names), "__annotations__": dict(fields)}
    return types.new_class(name, (typing.NamedTuple,), {}, lambda namespace: namespace.update(body))
