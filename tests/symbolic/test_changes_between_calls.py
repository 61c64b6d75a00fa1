"""What was compiled for one call is not run where the program has changed: classes, functions, modules, settings of libraries."""

import pytest

pytest.importorskip("torch")
from program_table import check_program, programs

PROGRAMS = programs("changes_between_calls.txt")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_change_between_calls(name):
    check_program(name, PROGRAMS[name])
