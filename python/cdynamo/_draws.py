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
