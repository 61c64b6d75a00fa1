"""What sweeps over expressions share: the comparison of outcomes, and a run in another process, where a crash costs one
expression."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Checks one expression, and writes what it is about to call to the file: how often the outcomes are the same, and how often not.
Check = Callable[[str, Path], tuple[int, int]]


def outcome(function: Callable, arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        return error


def same(expected: Any, got: Any, strides: bool = False) -> bool:
    """Whether two outcomes are alike; errors by their types, numbers up to rounding, tensors' strides if they are asked for."""
    import numpy as np
    import torch

    if isinstance(expected, Exception) or isinstance(got, Exception):
        return type(expected) is type(got)
    if expected is None or isinstance(expected, (torch.dtype, torch.Size)):
        return type(got) is type(expected) and got == expected
    if isinstance(expected, (list, tuple)):
        alike = isinstance(got, type(expected)) and len(got) == len(expected)
        return alike and all(same(each, other, strides) for each, other in zip(expected, got))
    if isinstance(expected, torch.Tensor):
        if not isinstance(got, torch.Tensor) or (expected.shape, expected.dtype) != (got.shape, got.dtype):
            return False
        if strides and expected.stride() != got.stride():
            return False
        half = expected.dtype in (torch.float16, torch.bfloat16)
        wide = torch.complex128 if expected.is_complex() else torch.float64
        return torch.allclose(
            expected.to(wide), got.to(wide), *((1e-2, 1e-2) if half else (1e-4, 1e-5)), equal_nan=True
        )
    expected, got = np.asarray(expected), np.asarray(got)
    if (expected.shape, expected.dtype) != (got.shape, got.dtype):
        return False
    return np.allclose(expected, got, 1e-6, 1e-9, equal_nan=True)


def _work(expressions: list[str], state: Path, prepare: Callable[[], Check]) -> None:
    warnings.simplefilter("ignore")
    check = prepare()
    for expression in expressions:
        print(json.dumps(check(expression, state)), flush=True)


def main(file: str, description: str, expressions: list[str], prepare: Callable[[], Check]) -> int:
    """Runs `file`, which calls this, for its expressions; `prepare` is called where they are checked."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="expressions that contain this")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        _work(json.load(sys.stdin), chosen.worker, prepare)
        return 0
    left = [expression for expression in expressions if chosen.only in expression]
    agree = differ = crashed = 0
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        while left:
            command = [sys.executable, "-X", "faulthandler", file, "--worker", str(state)]
            run = subprocess.run(command, input=json.dumps(left), capture_output=True, text=True)
            done = 0
            for line in run.stdout.splitlines():
                if line.startswith("["):
                    now, not_now = json.loads(line)
                    agree, differ, done = agree + now, differ + not_now, done + 1
                else:
                    print(line, flush=True)
            left = left[done:]
            if left and not state.exists():
                raise RuntimeError(run.stderr)
            if left:
                crashed += 1
                print(f"crashed: {state.read_text()}\n{run.stderr[-400:]}", flush=True)
                left = left[1:]
    print(f"{agree} same, {differ} differ, {crashed} crashed")
    return 1 if differ or crashed else 0
