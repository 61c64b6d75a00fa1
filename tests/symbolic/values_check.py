"""Compiled against plain Python: results, what was changed in the arguments, which objects are the same, errors."""

from __future__ import annotations

import collections
import contextlib
import copy
import gc
import logging
import random
import types

import cdynamo


def canonical(x, seen=None):
    """`x` as nested tuples that compare equal where structure, types and aliasing are equal."""
    seen = {} if seen is None else seen
    if x is None or isinstance(x, (bool, int, float, complex, str, bytes)) and type(x).__module__ == "builtins":
        return type(x).__name__, repr(x)
    if isinstance(x, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.MethodType)):
        return getattr(x, "__qualname__", None) or repr(x)
    if not isinstance(x, (tuple, frozenset)):  # what cannot change has no identity to speak of
        if id(x) in seen:
            return "seen", seen[id(x)][0]
        seen[id(x)] = (len(seen), x)
    parts = [type(x).__qualname__]
    if isinstance(x, (list, tuple)):
        parts += [canonical(item, seen) for item in x]
    elif isinstance(x, collections.deque):
        parts += [x.maxlen, *[canonical(item, seen) for item in x]]
    elif isinstance(x, dict):
        parts += [(canonical(k, seen), canonical(v, seen)) for k, v in x.items()]
    elif isinstance(x, (set, frozenset)):
        parts += sorted(map(str, [canonical(item, seen) for item in x]))
    elif isinstance(x, (range, slice)) or type(x).__module__ in ("enum", "functools"):
        parts.append(repr(x))
    elif isinstance(x, (types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items()))):
        parts += [canonical(item, seen) for item in x]
    elif isinstance(x, BaseException):
        parts += [canonical(item, seen) for item in x.args]
    elif hasattr(x, "__next__"):
        parts += [canonical(item, seen) for item in x]
    for name in getattr(type(x), "__slots__", ()):
        parts.append((name, canonical(getattr(x, name, "missing"), seen)))
    if hasattr(x, "__dict__"):
        parts.append(canonical(dict(vars(x)), seen))
    return tuple(parts)


def outcome(fn, args):
    """What a call returns or raises, and its arguments afterwards, in one structure so that aliasing shows."""
    try:
        result = ("returned", fn(*args))
    except Exception as error:
        result = ("raised", error)
    return canonical((result, list(args)))


@contextlib.contextmanager
def break_reports():
    """What is said of the graph breaks of the block, as a list that fills."""
    reports = []
    handler = logging.Handler()
    handler.emit = lambda record: reports.append(record.getMessage())
    logger = logging.getLogger("cdynamo.graph_breaks")
    logger.addHandler(handler)
    logger.propagate = False
    cdynamo.set_logs(graph_breaks=True)
    try:
        yield reports
    finally:
        cdynamo.set_logs(graph_breaks=False)
        logger.propagate = True
        logger.removeHandler(handler)


@contextlib.contextmanager
def without_garbage_collection():
    """Else the finalizers of what other tests left may run in the block, and be compiled: their breaks would be counted."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def check(fn, *calls, breaks=0):
    """Calls `fn` with each tuple of arguments, plain and compiled, twice each; the compiled function is kept."""
    cdynamo.reset()
    cdynamo.config.keep_empty_graphs = True
    compiled = cdynamo.optimize(fn)
    before = cdynamo.counters()["graph_breaks"]
    with break_reports() as reports, without_garbage_collection():
        for args in calls or ((),):
            for _ in range(2):
                expected = outcome(fn, copy.deepcopy(args))
                assert outcome(compiled, copy.deepcopy(args)) == expected, args
    if breaks is not None:
        counted = cdynamo.counters()["graph_breaks"] - before
        assert counted == breaks, "\n".join([f"{counted} graph breaks", *reports])


def check_equal(got, expected):
    """The same types and values, tensors as close as torch.testing has them, generators in the same state."""
    import torch

    assert type(got) is type(expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected)
    elif isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for mine, theirs in zip(got, expected):
            check_equal(mine, theirs)
    elif isinstance(expected, random.Random):
        assert got.getstate() == expected.getstate()
    else:
        assert got == expected
