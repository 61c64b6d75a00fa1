"""The exception that is being handled is the thread's: a compiled function leaves it as it was."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from saying import shout

import cdynamo


def broken_out_of(x, m):
    while m:
        try:
            {}["k"]
        except KeyError:
            shout(end="")
            if m > 1:
                break
    return x + 1


def broken_out_of_a_for(x, m):
    for _ in range(3):
        try:
            {}["k"]
        except KeyError:
            shout(end="")
            if m > 1:
                break
    return x + 1


def gone_on_with(x, m):
    while m:
        m = m - 1
        try:
            {}["k"]
        except KeyError:
            shout(end="")
            continue
    return x + 1


def returned_from(x, m):
    while m:
        try:
            {}["k"]
        except KeyError:
            shout(end="")
            if m > 1:
                return x + 1


def loop_in_it(x, m):
    try:
        {}["k"]
    except KeyError:
        for _ in range(m):
            shout(end="")
        x = x * 2
        x = x + 1
    return x + 1


def loop_in_it_left(x, m):
    try:
        {}["k"]
    except KeyError:
        while m:
            shout(end="")
            if m > 1:
                break
        x = x * 2
    return x + 1


def loop_with_an_else(x, m):
    while m:
        try:
            {}["k"]
        except KeyError:
            k = 2
            while k:
                k -= 1
                shout(end="")
            else:
                if m > 1:
                    break
    return x + 1


def two_of_them(x, m):
    while m:
        try:
            {}["k"]
        except KeyError:
            try:
                [][1]
            except IndexError:
                shout(end="")
                if m > 1:
                    break
    return x + 1


def swallowed(x, m):
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, *args):
            shout(end="")
            return True

    while m:
        with Manager():
            {}["k"]
        if m > 1:
            break
    return x + 1


def left_by_finally(x, m):
    while m:
        try:
            {}["k"]
        except KeyError:
            try:
                shout(end="")
                if m > 1:
                    break
            finally:
                shout(end="")
    return x + 1


FUNCTIONS = [
    broken_out_of, broken_out_of_a_for, gone_on_with, returned_from, loop_in_it, loop_in_it_left, loop_with_an_else, two_of_them,
    swallowed, left_by_finally,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("around", [False, True])
def test_what_is_handled_stays(function, around):
    compiled = cdynamo.optimize(function)
    seen = []

    def run():
        for _ in range(3):
            if not around:
                result = compiled(np.ones(2), 2)
                seen.append((sys.exc_info()[1], result.tolist()))
                continue
            try:
                raise ValueError
            except ValueError as error:
                result = compiled(np.ones(2), 2)
                seen.append((None if sys.exc_info()[1] is error else "another", result.tolist()))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [(None, function(np.ones(2), 2).tolist())] * 3


@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_error_afterwards_has_no_context(function):
    def fails(x, m):
        function(x, m)
        raise RuntimeError

    compiled = cdynamo.optimize(function)
    for call in (cdynamo.optimize(fails), lambda x, m: (compiled(x, m), fails(x, m))):
        with pytest.raises(RuntimeError) as caught:
            call(np.ones(2), 2)
        assert caught.value.__context__ is None
