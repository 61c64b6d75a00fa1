"""Programs as users write them (programs/*.py): equal to plain Python, and no graph break but those that they ask for.

A program is a function of `optimize`, which is `cdynamo.optimize` or hands back what it is given; what it returns is compared."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import cdynamo

torch = pytest.importorskip("torch")


def programs() -> list:
    found = []
    for path in sorted((Path(__file__).parent / "programs").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"program_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look for it
        spec.loader.exec_module(module)
        for program in module.PROGRAMS:
            breaks = getattr(module, "BRANCHES_ON_DATA", {}).get(program, 0)
            found.append(pytest.param(program, breaks, id=f"{path.stem}-{program.__name__}"))
    return found


def assert_same(got, wanted, place="result"):
    assert type(got) is type(wanted), place
    if isinstance(wanted, dict):
        assert list(got) == list(wanted), place
        for key in wanted:
            assert_same(got[key], wanted[key], f"{place}[{key!r}]")
    elif isinstance(wanted, (list, tuple)):
        assert len(got) == len(wanted), place
        for i, (a, b) in enumerate(zip(got, wanted)):
            assert_same(a, b, f"{place}[{i}]")
    elif isinstance(wanted, (torch.Tensor, np.ndarray, float)):
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4, msg=lambda text: f"{place}: {text}")
    else:
        assert got == wanted, place


@pytest.mark.parametrize(("program", "breaks"), programs())
def test_program(program, breaks, counts):
    wanted = program(lambda function: function)
    assert_same(program(cdynamo.optimize), wanted)
    assert counts.graphs_compiled > 0
    assert counts.graph_breaks == breaks
