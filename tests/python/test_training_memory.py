"""Peak memory of training steps is at most eager's: benchmarks/training_memory.py, with a margin for the allocator."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cdynamo

pytest.importorskip("torch")

ROOT = Path(__file__).parent.parent.parent
CASES = ["mlp", "gpt_4_layers", "gpt_12_checkpoints"]


@pytest.mark.skipif(not shutil.which("cc"), reason="the counter of the heap wants a C compiler")
def test_peak_of_a_training_step():
    folder = str(Path(cdynamo.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "training_memory.py"), "--only", ",".join(CASES)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": folder, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == CASES
    for name, _, _, ratio, *_ in rows:
        assert float(ratio) <= 1.02, f"{name}\n{done.stdout}"
