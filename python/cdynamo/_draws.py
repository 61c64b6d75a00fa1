"""What `random.Random` draws of a sequence, as places in it: the same draws as for the sequence itself."""

from __future__ import annotations

import random


def order(generator: random.Random, size: int) -> tuple[int, ...]:
    """Where `shuffle` takes each item of a list of `size` from."""
    places = list(range(size))
    generator.shuffle(places)
    return tuple(places)


def sample(generator: random.Random, size: int, count: int) -> tuple[int, ...]:
    """Where `sample` takes `count` items of a sequence of `size` from."""
    return tuple(generator.sample(range(size), count))


def seed(generator: random.Random, number: float) -> int:
    """Seeds the generator, in the order of its draws."""
    generator.seed(number)
    return 0


def same_state(a: object, b: object) -> bool:
    """Whether two states of NumPy's bit generators, dicts of numbers and arrays, are equal."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same_state(a[key], b[key]) for key in a)
    return bool(a == b) if isinstance(a, (int, float, str)) else a.tolist() == b.tolist()


def same_bits(original: object, copy: object) -> bool:
    """Whether the bit generators' states are equal."""
    return same_state(original.state, copy.state)


def same_random_state(original: object, copy: object) -> bool:
    """Whether the states of two RandomStates, with what they add to their bit generators', are equal."""
    return same_state(original.get_state(legacy=False), copy.get_state(legacy=False))
