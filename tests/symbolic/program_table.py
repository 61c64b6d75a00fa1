"""Programs in a text file: `## name`, the program, which defines `f`, and after each `# change` what runs between two calls of it."""

from __future__ import annotations

import importlib
import re
import sys
import types
import warnings
from pathlib import Path

import numpy as np
from values_check import canonical

import cdynamo

torch = importlib.import_module("torch")

NAMES = """abc bisect builtins calendar collections collections.abc contextlib contextvars copy copyreg dataclasses decimal enum
functools gc heapq importlib inspect io itertools json locale logging math numbers operator os re statistics string sys textwrap
threading types typing warnings weakref"""
HEAD = f"import {', '.join(NAMES.split())}\nimport numpy as np\nimport torch\n"


def programs(file: str) -> dict[str, list[str]]:
    text = (Path(__file__).parent / file).read_text()
    parts = (part.split("\n", 1) for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:])
    return {name.strip(): re.split(r"^# change\n", body, flags=re.MULTILINE) for name, body in parts}


def plain(x):
    """Arrays and tensors as what they hold."""
    if isinstance(x, (np.ndarray, np.generic)):
        return "array", str(x.dtype), repr(x.tolist())
    if isinstance(x, torch.Tensor):
        return "tensor", str(x.dtype), x.requires_grad, repr(x.tolist())
    return type(x)(map(plain, x)) if type(x) in (list, tuple) else x


def outcome(f, x):
    try:
        return "returned", canonical(plain(f(x)))
    except Exception as error:
        return "raised", type(error).__name__, re.sub("0x[0-9a-f]+", "0x", str(error))


def outcomes(name: str, parts: list[str], wrap) -> list:
    """Of two calls after each part, with what they have logged, and what `post` shows of the argument and of globals."""
    module = sys.modules[f"program_{name}"] = types.ModuleType(f"program_{name}")  # dataclasses look it up
    space = module.__dict__
    space["log"] = []
    result = []
    for i, part in enumerate(parts):
        exec(compile(HEAD + part if i == 0 else part, f"<{name} {i}>", "exec"), space)
        if i == 0:
            f = wrap(space["f"])
        for _ in range(2):
            x = space.get("make", lambda: np.arange(4.0))()
            call = outcome(f, x)
            post = canonical(plain(space["post"](x))) if "post" in space else None
            result.append((i, call, post, [repr(entry) for entry in space["log"]]))
            space["log"].clear()
    return result


def check_program(name: str, parts: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = outcomes(name, parts, lambda f: f)
        cdynamo.config.keep_empty_graphs = True
        assert outcomes(name, parts, cdynamo.optimize) == expected
