"""Programs of fixed seeds on the Python that runs the tests, and many of them in the long run."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest

from fuzz import grammar, growth, special_values
from fuzz.check import is_determined
from fuzz.programs import KINDS, Program, make_program
from fuzz.runner import Worker, search_in
from fuzz.shrink import shrink

BACKENDS = ("native", "eager", "callable")
ROOT = Path(__file__).parent.parent.parent
try:
    import torch  # noqa: F401

    HERE = KINDS
except ImportError:
    HERE = ("python", "numpy")


def run(python: str, seeds: range, jobs: int = 1) -> None:
    """Fails with the first find, made small."""
    for _, _, find in search_in(jobs, python, 120, iter(seeds), HERE, BACKENDS):
        if find:
            worker = Worker(python, seconds=120)
            try:
                pytest.fail(str(shrink(find, worker)))
            finally:
                worker.stop()


def test_programs():
    """Ten seconds or so, other programs on each Python."""
    first = 1_000_000 * sys.version_info.minor
    run(sys.executable, range(first, first + 240))


@pytest.fixture(scope="module")
def worker():
    worker = Worker(sys.executable, seconds=120)
    yield worker
    worker.stop()


FINDS = sorted(file for file in Path(__file__).parent.glob("finds/*.py") if file.stem.split("_")[0] in HERE)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("file", FINDS, ids=lambda file: file.stem)
def test_what_was_found(worker, file, backend):
    request = {"seed": 0, "kind": file.stem.split("_")[0], "source": file.read_text(), "backend": backend}
    ran, find = worker.run(request)
    assert ran and not find, str(find)


def interpreters() -> list[str]:
    return [sys.executable, *(str(path) for path in sorted(ROOT.glob("build/venv-*/bin/python")))]


@pytest.mark.long
@pytest.mark.parametrize("python", interpreters())
def test_many_programs(python):
    count = 100_000 // len(interpreters())
    first = 100_000 * interpreters().index(python)
    run(python, range(first, first + count), jobs=os.cpu_count() or 1)


@pytest.mark.parametrize("computes", [True, False])
def test_which_nans_are_compared(computes):
    """Those that are written down are; those that NumPy computes are not."""
    nan = "x.min()" if computes else "x[0]"
    source = f"""
from fuzz.prelude import *
SHARED = []
STATE = {{'n': 0}}

def f(x):
    x = x.view(np.float32).copy()
    x[1] = {nan}
    return x.view(np.int32)
CALLS = [lambda: ((np.array([-1, 1], np.int32),), {{}})]
"""
    assert is_determined(Program(0, "numpy", source)) != computes


def test_a_seed_gives_one_program():
    assert make_program(5).source == make_program(5).source != make_program(9).source


def breaks_in(block: ast.stmt) -> bool:
    words = ast.unparse(block)
    return any(row in words for row in ("print(", "graph_break()", "left_alone(", ".item()"))


def test_every_kind_of_block_is_broken_with_code_after_it():
    met = set()
    for seed in range(1200):
        function = next(node for node in ast.parse(make_program(seed).source).body if isinstance(node, ast.FunctionDef))
        for node in ast.walk(function):
            body = getattr(node, "body", None)
            for statement in body[:-1] if isinstance(body, list) else []:
                if hasattr(statement, "body") and breaks_in(statement):
                    met.add(type(statement).__name__)
    assert met >= {"For", "While", "With", "Try", "If", "FunctionDef"}, met


def test_rows_name_known_kinds():
    tables = [grammar.EXPRESSIONS, grammar.ARRAYS, grammar.NUMPY, grammar.TORCH, grammar.TRAINING]
    for kinds in tables:
        assert set(kinds) <= set(grammar.SHORT) | {"F", "G"}


@pytest.mark.parametrize("seed", range(24))
def test_special_values(seed):
    assert special_values.mismatches(seed) == []


@pytest.mark.long
def test_many_special_values():
    assert [found for seed in range(24, 2000) for found in special_values.mismatches(seed)] == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_code_grows_as_graphs_do(seed):
    assert growth.ratio(seed) < 1.5
