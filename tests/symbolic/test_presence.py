"""What is there in one call and not in the next (tests/sweeps/presence.py)."""

from __future__ import annotations

import warnings

import pytest
from sweeps.presence import OWNERS, Program, difference, programs

import cdynamo

FOUND = [
    ("module", ("delete",), ("'s'", "None", "2", None)),
    ("module", ("try to delete",), ("2.5", None, "2", "1")),
    ("module", ("delete", "write what came in"), ("2", "2.5", None, None)),
    ("module", ("write", "delete"), ("2.5", "2.5", "T", None)),
    ("global", ("write what came in", "delete", "try to read"), (None, "T", "1", "2.5")),
    ("global", ("write", "break", "delete", "try to read"), (None, "1", None, "T")),
    ("function", ("write", "delete"), ("2", None, "1", "T")),
    ("function", ("write", "write", "try to delete"), (None, None, "1", "None")),
    ("metaclass", ("keep", "lambda"), (None, "T", "'s'", None)),
    ("metaclass", ("write what came in", "read"), ("2", "'s'", None, "2")),
    ("tensor", ("pop", "has"), ("1", "2.5", None, "2")),
    ("tensor", ("pop", "try to read"), ("1", "2.5", "1", "2.5")),
    ("slot", ("is",), (None, "1", None, "T")),
]


@pytest.mark.parametrize("found", FOUND, ids=lambda found: f"{found[0]}: {', '.join(found[1])}")
def test_what_was_found(found):
    if found[0] not in OWNERS:
        pytest.skip("there is no PyTorch")
    assert difference(Program(*found)) is None


@pytest.mark.parametrize("seed", range(4))
def test_programs(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [found for program in programs(seed, 60) if (found := difference(program))] == []


@pytest.mark.long
def test_many_programs():
    assert [found for program in programs(100, 20_000) if (found := difference(program))] == []


# With literals, which a compiler warns of.
OF_NUMBERS = (
    "lambda n, m: (n * 2, n is -1, n is not 5, 7 is n, n is m, n is 1000, (n + 1) is 6, (n + 1) is n, n is None)"
)
OF_TEXTS = "lambda n, m: (n, n is m, n is 'x', n is 2.5, n is (1, 2))"
NUMBERS = [(-1, 1), (1, 2), (-1, -1), (5, 5), (7, 3), (300, 300), (1000, int("1000")), (4, 4), (256, 256), (-7, 1)]
TEXTS = [(2.5, 2.5), (float("2.5"), 2.5), ("x", "y"), ("ab c", "".join(["ab", " c"])), ((1, 2), (1, 2)), (1.5, 2.5)]


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("source, calls", [(OF_NUMBERS, NUMBERS), (OF_TEXTS, TEXTS)], ids=["numbers", "texts"])
def test_identity(source, calls, backend):
    """Small ints are one object; of other numbers and texts it depends on which object came in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = eval(source)
    compiled = cdynamo.optimize(f, backend=backend)
    for arguments in calls:
        assert compiled(*arguments) == f(*arguments), arguments
