"""The kernel cache on disk costs nothing but itself where it cannot be used: no failure, no warning, the same results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")

PROGRAM = """
import resource, sys
import numpy as np
import cdynamo

if sys.argv[1:] == ["full disk"]:  # no file may be longer than this
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))

@cdynamo.optimize
def f(x):
    return np.tanh(x) * 2 + x.sum(axis=0)

x = np.arange(12.0).reshape(3, 4)
np.testing.assert_allclose(f(x), np.tanh(x) * 2 + x.sum(axis=0))
counters = cdynamo.counters()
print(counters["graphs_compiled"], counters["kernels_from_disk"] > 0)
"""


def run(directory: Path | str, *arguments: str) -> str:
    environment = {**os.environ, "CDYNAMO_CACHE_DIR": str(directory)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.strip()


def test_a_second_process_finds_the_kernels(tmp_path):
    assert run(tmp_path / "kernels") == "1 False"
    assert run(tmp_path / "kernels") == "1 True"


@pytest.mark.parametrize("damage", [b"", b"\0" * 300, None], ids=["empty", "zeros", "one byte"])
def test_damaged_entries_are_compiled_anew(tmp_path, damage):
    directory = tmp_path / "kernels"
    run(directory)
    entries = list(directory.iterdir())
    assert entries
    for entry in entries:
        content = bytearray(entry.read_bytes())
        content[-100] ^= 1
        entry.write_bytes(content if damage is None else damage)
    assert run(directory) == "1 False"
    assert run(directory) == "1 True"  # they were written again


def test_a_full_disk(tmp_path):
    directory = tmp_path / "kernels"
    assert run(directory, "full disk") == "1 False"
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("place", ["/proc/cdynamo/kernels", "/dev/null/kernels", "/dev/null"])
def test_a_directory_that_cannot_be_made(place):
    assert run(place) == "1 False"


SIZES_OF_ONE_KERNEL = """
import cdynamo, numpy as np

def joined(a, b):
    c = np.concatenate([a, b], axis=1) * 2
    return c, c.shape[1] < 17

compiled = cdynamo.optimize(joined)
for n in (6, 7, 8, 12, 15, 16, 17, 30, 33, 100):
    for dtype in ("int64", "float64", "int8"):
        a, b = np.arange(2 * n).reshape(2, n).astype(dtype), np.ones((2, 1), dtype)
        mine, theirs = compiled(a, b), joined(a, b)
        np.testing.assert_array_equal(mine[0], theirs[0])
        assert mine[1] == theirs[1]
"""


def test_what_is_known_of_sizes_is_part_of_a_kernel():
    """Rows of fewer than 17 are one run of lanes: code made for these is not the code of the same kernel for longer ones."""
    done = subprocess.run([sys.executable, "-c", SIZES_OF_ONE_KERNEL], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
