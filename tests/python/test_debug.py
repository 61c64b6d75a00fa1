"""CDYNAMO_DEBUG=1: errors and crashes name the kernel and its lines (on a GPU: tests/runtime/cuda_debug_test.cpp)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import cdynamo

np = pytest.importorskip("numpy")

pytestmark = pytest.mark.native


def run(tmp_path, program, **environment):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    return subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )


CRASH = """
    import ctypes
    import numpy as np
    import cdynamo

    @cdynamo.optimize
    def f(x, y):
        z = np.sin(y)
        return np.exp(
            x).sum() + z.sum()

    no_memory = np.frombuffer((ctypes.c_double * 4096).from_address(4096))
    f(np.zeros(4096), np.zeros(4096))
    f(no_memory, np.zeros(4096))
"""


def test_a_crash_names_its_kernel(tmp_path):
    silent = run(tmp_path, CRASH)
    if "AddressSanitizer" in silent.stderr:
        pytest.skip("AddressSanitizer takes crashes for its own")
    assert silent.returncode < 0 and "cdynamo" not in silent.stderr
    named = run(tmp_path, CRASH, CDYNAMO_DEBUG="1")
    assert named.returncode == silent.returncode
    assert "cdynamo: the process crashes in kernel" in named.stderr and "program.py:9" in named.stderr


def test_what_handles_crashes_still_does(tmp_path):
    crash = run(tmp_path, CRASH, CDYNAMO_DEBUG="1", PYTHONFAULTHANDLER="1")
    assert "cdynamo: the process crashes in kernel" in crash.stderr and "Fatal Python error" in crash.stderr


@pytest.fixture
def debug():
    cdynamo.config.debug = True
    cdynamo.reset()
    yield
    cdynamo.config.debug = False


def test_results_and_errors_are_the_same(debug):
    @cdynamo.optimize
    def f(x, i):
        return (np.exp(x) / np.exp(x).sum())[i] @ x[i]

    x = np.linspace(0, 1, 20000)
    places = np.arange(0, 20000, 3)
    np.testing.assert_allclose(f(x, places), (np.exp(x) / np.exp(x).sum())[places] @ x[places])
    with pytest.raises(IndexError, match="index 20001 is out of bounds"):
        f(x, places + 3)
