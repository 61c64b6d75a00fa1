"""Loops that a graph break leaves to Python, with code before and after them that is compiled.

A loop that Python executes is left through a stub on each of its ways out: at its end, by break, continue and return, into
`else`, out of `with` and `try`, with other things on the stack. Each program runs plain and compiled, on NumPy and on torch.
"""

from __future__ import annotations

import copy
import re
import sys
import types

import loop_programs
import loop_programs_in_blocks
import numpy as np
import pytest
from saying import LOG

import cdynamo

try:
    import torch
except ImportError:
    torch = None

GRAD_FN = re.compile(r"grad_fn=<\w+>")  # what autograd calls its nodes is no part of a result


def programs_of(module):
    functions = [
        f for f in vars(module).values() if isinstance(f, types.FunctionType) and f.__module__ == module.__name__
    ]
    return [f for f in functions if f.__code__.co_varnames[: f.__code__.co_argcount] == ("x", "n")]


PROGRAMS = programs_of(loop_programs) + programs_of(loop_programs_in_blocks)

LIBRARIES = {"numpy": lambda: np.arange(4.0)}
if torch:
    LIBRARIES["torch"] = lambda: torch.arange(4.0)
    LIBRARIES["training"] = lambda: torch.arange(4.0, requires_grad=True)


def observe(function, x, n):
    LOG.clear()
    x = copy.deepcopy(x)
    try:
        outcome = ("returned", function(x, n))
    except Exception as error:
        outcome = ("raised", type(error).__name__, str(error))
    gradient = None
    if torch and isinstance(outcome[1], torch.Tensor) and outcome[1].requires_grad:
        outcome[1].sum().backward()
        gradient = x.grad
        outcome = outcome[0], outcome[1].detach()
    return repr((outcome, gradient)), list(LOG)


def same(got, expected):
    return GRAD_FN.sub("", got[0]) == GRAD_FN.sub("", expected[0]) and got[1] == expected[1]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_agrees(program, library):
    cdynamo.config.suppress_errors = False
    x = LIBRARIES[library]()
    compiled = cdynamo.optimize(program)
    for n in (0, 3, 1, 4, 3, 2):
        expected = observe(program, x, n)
        got = observe(compiled, x, n)
        assert same(got, expected), (n, got, expected)


def test_a_loop_is_traced_as_in_python():
    """A debugger's and a profiler's events while a continuation runs its loop."""
    events = []
    compiled = cdynamo.optimize(loop_programs.a_for_loop)
    compiled(np.arange(4.0), 3)
    expected = loop_programs.a_for_loop(np.arange(4.0), 3)

    def profile(frame, event, argument):
        if frame.f_code.co_name == "a_for_loop":
            events.append(event)

    sys.setprofile(profile)
    try:
        result = compiled(np.arange(4.0), 3)
    finally:
        sys.setprofile(None)
    assert result.tolist() == expected.tolist()
    assert events.count("call") == events.count("return")


def test_the_code_after_a_loop_is_compiled(counts):
    compiled = cdynamo.optimize(loop_programs.a_for_loop)
    assert compiled(np.arange(4.0), 3).tolist() == loop_programs.a_for_loop(np.arange(4.0), 3).tolist()
    assert counts.graphs_compiled == 3  # before it, a turn of it, after it
