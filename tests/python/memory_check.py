"""Compiled against plain Python where tensors and arrays share memory: types, dtypes, strides, values, who shares with whom,
what was written to arguments, and gradients."""

from __future__ import annotations

import copy
import os
import warnings

import numpy as np
import pytest

import cdynamo

torch = pytest.importorskip("torch")

READS_NUMBERS = os.environ.get("CDYNAMO_TEST_BACKEND", "native") == "native"  # within a graph


def f32(*sizes):
    return torch.arange(1.0, 1 + int(np.prod(sizes, dtype=int))).reshape(sizes) / 4


def f64(*sizes):
    return np.arange(1.0, 1 + int(np.prod(sizes, dtype=int))).reshape(sizes) / 4


def leaf(*sizes):
    return f32(*sizes).requires_grad_()


def facts(value):
    """What is the same of two equal results: types, dtypes, strides, values."""
    if isinstance(value, (tuple, list)):
        return [type(value), *map(facts, value)]
    if isinstance(value, dict):
        return {key: facts(item) for key, item in value.items()}
    if isinstance(value, torch.Tensor):
        strides = value.stride() if value.numel() else None  # NumPy has several for an array without elements
        return [type(value), value.dtype, tuple(value.shape), strides, value.requires_grad]
    if isinstance(value, np.ndarray):
        strides = value.strides if value.size else None
        return [type(value), value.dtype, value.shape, strides, value.flags.writeable]
    return [type(value), getattr(value, "dtype", None)]


def leaves(value):
    if isinstance(value, dict):
        value = tuple(value.values())
    return [x for item in value for x in leaves(item)] if isinstance(value, (tuple, list)) else [value]


def on_memory(value):
    """The array on the memory of a tensor or an array."""
    if isinstance(value, torch.Tensor):
        return value.detach().numpy()
    return value if isinstance(value, np.ndarray) else np.zeros(0)


def sharing(values):
    return [[np.shares_memory(on_memory(a), on_memory(b)) for b in values] for a in values]


def assert_equal(got, expected):
    assert facts(got) == facts(expected)
    for a, b in zip(leaves(got), leaves(expected), strict=True):
        if isinstance(a, (torch.Tensor, np.ndarray, np.generic, float)):
            a, b = (np.asarray(x.detach() if isinstance(x, torch.Tensor) else x) for x in (a, b))
            np.testing.assert_allclose(a, b, rtol=2e-3 if a.dtype == np.float16 else 2e-6, atol=1e-6)
        else:
            assert a == b


def fresh(args):
    return copy.deepcopy(args)


def backward(results, args):
    """The gradients of the arguments, or the error that PyTorch gives."""
    outputs = [x for x in leaves(results) if isinstance(x, torch.Tensor) and x.requires_grad]
    try:
        sum(x.double().sum() for x in outputs).backward()
    except RuntimeError as error:
        return str(error)
    return [x.grad for x in leaves(args) if isinstance(x, torch.Tensor) and x.is_leaf]


def gradients_of_what_was_there(function, args):
    """Eager's gradients with all that backward needs copied: NumPy's writes to what it has saved go unnoticed there."""
    given = copy.deepcopy(args)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.detach().clone(), lambda x: x):
        results = outcome(function, given)
    return backward(results, given)


def check(function, *args, calls=2, fullgraph=READS_NUMBERS):
    """Compares calls of `function` and of what it is compiled to, each on arguments of its own; errors too."""
    compiled = cdynamo.optimize(function, fullgraph=fullgraph)
    for _ in range(calls):
        theirs, ours = copy.deepcopy(args), copy.deepcopy(args)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's on __array_wrap__
            expected, got = outcome(function, theirs), outcome(compiled, ours)
        assert_equal(got, expected)
        assert_equal(ours, theirs)
        assert sharing(leaves([got, ours])) == sharing(leaves([expected, theirs]))
        if any(isinstance(x, torch.Tensor) and x.requires_grad for x in leaves(expected)):
            a, b = backward(got, ours), backward(expected, theirs)
            if isinstance(a, str) or isinstance(b, str):
                # Where eager's backward refuses what was written to since, the compiled one may have what was there.
                assert isinstance(b, str), (a, b)
            else:
                try:
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
                except AssertionError:
                    torch.testing.assert_close(a, gradients_of_what_was_there(function, args), rtol=1e-4, atol=1e-5)


def outcome(function, args):
    try:
        return function(*args)
    except cdynamo.GraphBreakError:
        raise
    except Exception as error:
        return type(error).__name__, str(error)
