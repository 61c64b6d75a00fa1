"""Graphs of random array code of every depth: what they are compiled to grows as they do, not faster.

A chain is a few random statements that are done again and again; the code for twice the depth is to be about twice as long.
"""

from __future__ import annotations

import logging
import random
from typing import Any

import numpy as np

import cdynamo
from fuzz.prelude import torch

# u: what is carried along, of one dim; n: its size. Reads of every kind, each of which may want what it reads several times.
READS = {
    "np": ["np.roll(u, 1)", "np.roll(u, -2)", "u[::-1]", "np.flip(u)", "np.concatenate([u[1:], u[:1]])", "np.pad(u, 1)[2:]", "np.pad(u, (0, 1))[1:]", "u[index]", "np.take(u, index)", "u.reshape(-1, 2).T.reshape(-1)", "u.cumsum()", "np.where(u > 0, u, np.roll(u, 1))", "(u - u.mean())", "u * u.max()", "abs(u)", "np.broadcast_to(u, (2, len(u)))[1]"],
    "torch": ["u.roll(1)", "u.roll(-2)", "u.flip(0)", "torch.cat([u[1:], u[:1]])", "torch.nn.functional.pad(u, (1, 0))[:-1]", "torch.nn.functional.pad(u, (0, 1))[1:]", "u[index]", "u.gather(0, index)", "u.view(-1, 2).t().reshape(-1)", "u.cumsum(0)", "torch.where(u > 0, u, u.roll(1))", "(u - u.mean())", "u * u.max()", "u.abs()", "u.expand(2, -1)[1]", "u.unfold(0, 2, 1).sum(1).repeat(2)[:len(u)]"],
}  # fmt: skip
MIXES = ["u = u + 0.1 * ({0} - 2 * u + {1})", "u = {0} + {1} * 0.5", "u = {0} - u", "u = 0.5 * ({0} + {1} + {0} * 0.1)", "u = {0} * 0.9", "u = ({0} + u) / 2", "u[1:] = {0}[1:]"]  # fmt: skip


def make(seed: int) -> tuple[str, str]:
    """(library, the chain's statements) of a seed."""
    choose = random.Random(f"growth {seed}")
    library = "np" if seed % 2 or torch is None else "torch"
    reads = READS[library]
    read = lambda: f"({choose.choice(reads)})"
    rows = [choose.choice(MIXES).format(read(), read()) for _ in range(choose.choice([1, 1, 2, 3]))]
    return library, "\n".join("        " + row for row in rows)


def code_size(seed: int, depth: int) -> int:
    """How much code a chain of this depth is compiled to, in characters."""
    library, body = make(seed)
    space: dict[str, Any] = {"np": np, "torch": torch}
    copied = "u.clone()" if library == "torch" else "u.copy()"
    exec(f"def f(u, index):\n    u = {copied}\n    for _ in range({depth}):\n{body}\n    return u\n", space)
    u, index = np.linspace(-1, 1, 32), np.arange(32)[::-1].copy()
    arguments = (torch.from_numpy(u), torch.from_numpy(index)) if library == "torch" else (u, index)
    sizes: list[int] = []
    handler = logging.Handler()
    handler.emit = lambda record: sizes.append(len(record.getMessage()))  # type: ignore[method-assign]
    logger = logging.getLogger("cdynamo.output_code")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    cdynamo.set_logs(output_code=True)
    logger.propagate = False
    try:
        cdynamo.optimize(space["f"])(*arguments)
    finally:
        cdynamo.set_logs(output_code=False)
        logger.removeHandler(handler)
        logger.level, logger.propagate = before
    return sum(sizes)


def ratio(seed: int, depth: int = 6) -> float:
    """The code for four times the depth, as a multiple of four times the code."""
    return code_size(seed, 4 * depth) / (4 * code_size(seed, depth))
