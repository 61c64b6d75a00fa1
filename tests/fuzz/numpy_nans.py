"""Programs in which the NaNs that NumPy computes have other bits: which ones it gives is the machine's choice, and its kernels'."""

from __future__ import annotations

import ast
import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

MARK = "__nans_otherwise"
CHANCE = random.Random()  # not the programs' own
COMPUTES = {name for name in dir(np) if isinstance(getattr(np, name), np.ufunc)}
COMPUTES |= {
    f"{nan}{name}" for name in ("sum", "prod", "cumsum", "cumprod", "mean", "std", "var") for nan in ("", "nan")
}
COMPUTES |= {"accumulate", "amax", "amin", "astype", "average", "clip", "diff", "dot", "inner", "item", "max", "median"}
COMPUTES |= {"min", "outer", "ptp", "reduce", "round", "tolist", "trace"}
SIGN, QUIET = (lambda bits: 1 << (8 * bits.itemsize - 1)), (lambda bits: 2)


class Marker(ast.NodeTransformer):
    """What operators and functions give goes through the mark; what is assigned to in place too, afterwards."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        return marked(self.generic_visit(node))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return marked(node) if isinstance(node.func, ast.Attribute) and node.func.attr in COMPUTES else node

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        self.generic_visit(node)
        root: ast.AST = node.target
        while isinstance(root, ast.Subscript | ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name):
            return [node]
        name = ast.copy_location(ast.Name(root.id, ast.Load()), node)
        return [node, ast.copy_location(ast.Expr(marked(name)), node)]


def marked(node: Any) -> ast.AST:
    return ast.copy_location(ast.Call(ast.Name(MARK, ast.Load()), [node], []), node)


@contextlib.contextmanager
def numpy_nans_otherwise(bits: Any, share: float) -> Iterator[tuple[Any, list[bool]]]:
    """A rewriting of modules (`load` takes it) under which NaNs have these bits the other way round, after this share of the
    operators, as chance has it; whether there were any."""
    changed: list[bool] = []

    def otherwise(value: Any) -> Any:
        if isinstance(value, list):
            return [otherwise(item) for item in value] if any(item != item for item in value) else value
        if not isinstance(value, np.ndarray | np.floating | float):
            return value
        array = np.asarray(value)  # of a scalar a new one
        parts = (array.real, array.imag) if array.dtype.kind == "c" else (array,)
        for part in parts:
            if part.dtype.kind != "f" or part.dtype.itemsize > 8 or not part.flags.writeable:
                continue
            nans = np.isnan(part)
            if nans.any() and CHANCE.random() < share:
                integers = part.view(f"u{part.dtype.itemsize}")
                integers[nans] ^= integers.dtype.type(bits(integers.dtype))
                changed.append(True)
        if isinstance(value, np.ndarray):
            return value
        return array[()] if isinstance(value, np.generic) else float(array)

    def rewrite(module: ast.Module, space: dict[str, Any]) -> ast.Module:
        space[MARK] = otherwise
        return ast.fix_missing_locations(Marker().visit(module))

    yield rewrite, changed
