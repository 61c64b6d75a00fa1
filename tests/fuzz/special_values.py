"""Random expressions of sign, comparison and selection on NaN, infinities, zeros of both signs and the smallest numbers.

What the simplifier takes for equal may differ just there: `x.abs().relu()` is no `x.abs()` where x is -0.0 or NaN.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import cdynamo
from fuzz.prelude import torch

NUMBERS = [float("nan"), -0.0, 0.0, float("inf"), -float("inf"), 1.0, -1.0, 0.5, -2.5, 1e-45, -1e-45, 3.4e38, -3.4e38, 2.0, -0.5, 7.0, float("nan")]  # fmt: skip

# x, y: arrays; {v}: an expression; {c}: a condition.
SHARED = [
    "-{v}", "abs({v})", "{v} + 0.0", "{v} - 0.0", "0.0 - {v}", "0.0 + {v}", "{v} * 0.0", "{v} * 1.0", "{v} * -1.0", "{v} / 1.0", "{v} - {v}", "{v} + {v}", "{v} * {v}", "{v} - ({v})", "1.0 / {v}", "{v} * 2.0",
    "{lib}.where({c}, {v}, {v})", "{lib}.where({c}, {v}, 0.0)", "{lib}.where({c}, 0.0, {v})", "{lib}.where({c}, {v}, -{v})", "{lib}.maximum({v}, {v})", "{lib}.minimum({v}, {v})", "{v} ** 2", "{v} % 2.0",
]  # fmt: skip
CONDITIONS = ["{v} > 0", "{v} >= 0", "{v} < {v}", "{v} == {v}", "{v} != {v}", "{v} <= 0.0", "~({c})", "({c}) & ({c})", "({c}) | ({c})", "({c}) ^ ({c})", "{lib}.isnan({v})", "{lib}.isinf({v})", "{lib}.signbit(x)", "({v}) == 0", "{v} > {v}", "({v} != 0)"]  # fmt: skip
TORCH = ["({v}).relu()", "({v}).sign()", "({v}).clamp(-1.0, 1.0)", "({v}).clamp(min=0.0)", "({v}).clamp(max=0.0)", "({v}).abs().relu()", "({v}).neg().relu()", "({v}).masked_fill({c}, 0.0)", "torch.copysign({v}, x)", "({v}).sqrt()", "({v}).square()", "({v}).nan_to_num()", "torch.nn.functional.leaky_relu({v}, 0.1)", "({v}).floor()", "({v}).trunc()", "torch.fmax({v}, {v})", "torch.nn.functional.relu6({v})", "({v}).heaviside(y)", "({c}).to(({v}).dtype)", "({v}).float()", "torch.threshold({v}, 0.0, 0.5)", "torch.nn.functional.hardtanh({v})", "torch.fmin({v}, {v})", "({v}).frac()"]  # fmt: skip
NUMPY = ["np.sign({v})", "np.clip({v}, -1.0, 1.0)", "np.clip({v}, 0.0, None)", "np.copysign({v}, x)", "np.sqrt({v})", "np.square({v})", "np.nan_to_num({v})", "np.floor({v})", "np.trunc({v})", "np.fmax({v}, {v})", "np.heaviside({v}, y)", "np.where({c}, 1.0, {v})", "np.negative({v})", "np.absolute({v})", "np.fabs({v})", "np.rint({v})", "np.fmin({v}, {v})", "({c}) * {v}"]  # fmt: skip
# The sign of a NaN that was computed is nobody's: only that of an input is looked at.
# Zeros of which sign these give is up to which operand the processor's instruction keeps: eager's own vectors and tails differ.
UNSIGNED_ZEROS = ("maximum", "minimum", "fmax", "fmin", "clamp", "clip", "relu", "hardtanh", "heaviside", "threshold")


def expression(choose: random.Random, library: str, depth: int, condition: bool = False) -> str:
    if depth == 0 and not condition:
        return choose.choice(["x", "x", "y"])
    rows = CONDITIONS if condition else SHARED + (TORCH if library == "torch" else NUMPY)
    text = choose.choice(rows).replace("{lib}", library)
    for mark, is_condition in (("{v}", False), ("{c}", True)):
        while mark in text:
            inner = expression(choose, library, max(depth - 1, 0), is_condition)
            text = text.replace(mark, inner if inner in ("x", "y") else f"({inner})", 1)
    return text


def make(seed: int, count: int = 12) -> tuple[str, list[str]]:
    """(library, expressions) of a seed."""
    choose = random.Random(f"special {seed}")
    library = "np" if seed % 2 or torch is None else "torch"
    return library, [expression(choose, library, choose.choice([1, 2, 2, 3, 4])) for _ in range(count)]


def inputs(library: str, seed: int) -> tuple[Any, Any]:
    choose = random.Random(seed)
    x, y = list(NUMBERS), list(NUMBERS)
    choose.shuffle(y)
    dtype = "float64" if seed % 4 >= 2 else "float32"
    arrays = [np.array(values * 2).astype(dtype) for values in (x, y)]  # lanes, and a tail
    return tuple(torch.from_numpy(array) for array in arrays) if library == "torch" else tuple(arrays)


def differing(got: Any, expected: Any, signed: bool) -> bool:
    got, expected = (np.asarray(value) for value in (got, expected))
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return True
    if got.dtype.kind != "f":
        return not np.array_equal(got, expected)
    close = np.isclose(got, expected, rtol=1e-6, atol=0, equal_nan=True)
    numbers = ~np.isnan(expected)
    return not close.all() or (signed and not np.array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers])))


def mismatches(seed: int) -> list[str]:
    """The expressions of the seed whose compiled values differ from the framework's own."""
    library, expressions = make(seed)
    x, y = inputs(library, seed)
    space = {"np": np, "torch": torch}
    exec(f"def f(x, y):\n    return [\n        {f', {chr(10)}        '.join(expressions)}\n    ]\n", space)
    with np.errstate(all="ignore"):
        try:
            expected = space["f"](x, y)
        except (RuntimeError, TypeError):  # dtypes that the framework refuses
            return []
        got = cdynamo.optimize(space["f"])(x, y)
    found = []
    for text, ours, plain in zip(expressions, got, expected, strict=True):
        signed = not any(word in text for word in UNSIGNED_ZEROS)
        if not signed and "1.0 / " in text:  # one over such a zero
            continue
        if differing(ours, plain, signed):
            found.append(f"seed {seed}: {text}\n  compiled {ours}\n  plain    {plain}")
    return found
