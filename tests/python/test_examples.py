"""The training examples run: both curves are equal and drawn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import cdynamo

pytest.importorskip("torch")

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("name", ["train_gpt", "train_resnet"])
def test_training_example(name, tmp_path):
    folder = str(Path(cdynamo.__file__).parent.parent)
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--steps", "4"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": folder, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "largest difference" in done.stdout
    picture = ElementTree.parse(tmp_path / f"{name}.svg")
    lines = picture.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.get("points").split()) for line in lines] == [4, 4]
