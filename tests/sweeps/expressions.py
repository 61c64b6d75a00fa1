"""What sweeps over expressions share: the comparison of outcomes, and a run in another process, where a crash costs one
expression."""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

CALLS = 40  # of an expression, each alone and as many as one function

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
    if isinstance(expected, (np.ndarray, np.generic)) and type(expected) is not type(got):
        return False
    expected, got = np.asarray(expected), np.asarray(got)
    if (expected.shape, expected.dtype) != (got.shape, got.dtype):
        return False
    if (
        strides
        and expected.size
        and any(n > 1 and a != b for n, a, b in zip(expected.shape, expected.strides, got.strides))
    ):
        return False
    if expected.dtype.kind not in "fc":
        return np.array_equal(expected, got)
    tolerance = {2: 1e-2, 4: 1e-4}.get(np.finfo(expected.dtype).bits // 8, 1e-6)
    return np.allclose(expected, got, tolerance, tolerance / 100, equal_nan=True)


def check_operands(
    expression: str,
    letters: str,
    names: dict[str, Any],
    state: Path,
    draw: Callable[[random.Random, int], list],
    make: Callable[..., Any],
    begin: Callable[[], Any] = lambda: None,
) -> tuple[int, int]:
    """The expression with operands of drawn kinds for its letters: compiled for each call alone, and as one function for all."""
    import cdynamo

    parameters = [name for name in letters if re.search(rf"\b{name}\b", expression)]
    function = eval(f"lambda {', '.join(parameters)}: {expression}", dict(names))
    source = random.Random(expression)
    counts = [0, 0]
    for dynamic in (False, None):
        cdynamo.reset()
        fast = cdynamo.optimize(function, dynamic=dynamic)
        for _ in range(CALLS):
            kinds = draw(source, len(parameters))
            state.write_text(f"{expression} of {kinds}")
            if dynamic is False:
                cdynamo.reset()
            given, also_given = ([make(*kind) for kind in kinds] for _ in range(2))
            begin()
            expected = outcome(function, given)
            begin()
            got = outcome(fast, also_given)
            alike = same(expected, got, strides=True) and same(given, also_given, strides=True)
            counts[not alike] += 1
            if not alike:
                print(f"{expression} of {kinds}: {expected!r:.150} | {got!r:.150}".replace("\n", " "), flush=True)
    return counts[0], counts[1]


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
