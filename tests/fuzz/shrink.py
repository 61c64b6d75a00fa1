"""Makes a failing program small: statements, calls and expressions go while the same find stays."""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Iterator

from fuzz.programs import is_python
from fuzz.runner import Find, Worker

BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


def without_a_statement(tree: ast.Module) -> Iterator[ast.Module]:
    """The module with one statement gone, or with a block's statements in the place of the block; large ones first."""
    places = [
        (i, name, j)
        for i, node in enumerate(ast.walk(tree))
        if not isinstance(node, ast.Module)
        for name in BODIES
        for j in range(len(getattr(node, name, None) or ()) if isinstance(getattr(node, name, None), list) else 0)
    ]
    for i, name, j in places:
        for inline in (False, True):
            changed = copy.deepcopy(tree)
            items = getattr(list(ast.walk(changed))[i], name)
            gone = items.pop(j)
            if inline:
                inner = [s for part in ("body", "orelse", "finalbody") for s in getattr(gone, part, None) or []]
                if not inner or not isinstance(gone, ast.stmt) or isinstance(gone, (ast.FunctionDef, ast.ClassDef)):
                    continue
                items[j:j] = inner
            if name == "body" and not items:
                if isinstance(gone, ast.Pass):
                    continue
                items.append(ast.Pass())
            yield changed


def without_a_call(tree: ast.Module) -> Iterator[ast.Module]:
    for i in range(len(tree.body[-1].value.elts)):
        changed = copy.deepcopy(tree)
        calls = changed.body[-1].value.elts
        if len(calls) > 1:
            del calls[i]
            yield changed


def with_smaller_expressions(tree: ast.Module) -> Iterator[ast.Module]:
    """An expression in `f` replaced by one of its parts, or by a number."""
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    count = sum(1 for _ in ast.walk(function))
    for i in range(count):
        node = list(ast.walk(function))[i]
        for field, value in ast.iter_fields(node):
            places = (
                [(None, value)]
                if isinstance(value, ast.expr)
                else list(enumerate(value))
                if isinstance(value, list)
                else []
            )
            for j, old in places:
                if not isinstance(old, ast.expr) or isinstance(old, (ast.Constant, ast.Name)):
                    continue
                parts = [part for part in ast.iter_child_nodes(old) if isinstance(part, ast.expr)]
                for new in [*parts[:3], ast.Constant(1)]:
                    changed = copy.deepcopy(tree)
                    place = list(ast.walk(next(n for n in changed.body if isinstance(n, ast.FunctionDef))))[i]
                    new = copy.deepcopy(new)
                    if isinstance(getattr(new, "ctx", None), ast.Store):
                        continue
                    if j is None:
                        setattr(place, field, new)
                    else:
                        getattr(place, field)[j] = new
                    yield changed


STEPS = (without_a_call, without_a_statement, with_smaller_expressions)


def candidates(source: str) -> Iterator[str]:
    """Programs that are shorter than this one in characters or lines."""
    for step in STEPS:
        for tree in step(ast.parse(source)):
            try:
                text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
            except (ValueError, TypeError, AttributeError):
                continue
            if (len(text) < len(source) or text.count("\n") < source.count("\n")) and is_python(text):
                yield text


def shrink(find: Find, worker: Worker, tries: int = 400, seconds: float = 300) -> Find:
    """The smallest find of the same title within so many tries and so much time: a hang takes its limit at each."""
    best, progress, until = find, True, time.monotonic() + seconds
    while progress:
        progress = False
        for source in candidates(best.source):
            if tries == 0 or time.monotonic() > until:
                return best
            tries -= 1
            _, smaller = worker.run({"seed": find.seed, "kind": find.kind, "source": source, "backend": find.backend})
            if smaller and smaller.title == find.title:
                best, progress = smaller, True
                break
    return best
