"""Instances that are made after a graph has run."""

from __future__ import annotations


def with_attributes(instance, attributes, slots):
    """Gives a new `instance` what its `__dict__` and slots hold: it is whole before a dict or set asks for its hash."""
    if attributes:
        object.__getattribute__(instance, "__dict__").update(attributes)
    for name, value in slots.items():
        object.__setattr__(instance, name, value)
    return instance
