"""Side effects come in Python's order, and those of what fails half-way stay: containers, iterators, generators, hostile methods."""

import pytest

pytest.importorskip("torch")
from program_table import check_program, programs

PROGRAMS = programs("side_effect_orders.txt")


@pytest.mark.parametrize("name", PROGRAMS)
def test_side_effects(name):
    check_program(name, PROGRAMS[name])
