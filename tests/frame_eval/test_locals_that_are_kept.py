"""What locals(), exec and their like make of a frame's locals holds them to the frame's end, in pieces as well (3.11, 3.12)."""

from __future__ import annotations

import numpy as np
import pytest

import cdynamo


def generator(name, log):
    try:
        yield 1
    finally:
        log.append(name)


class Noted:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def __del__(self):
        self.log.append(self.name)


def generators(x, look):
    log = []
    first = generator("first", log)
    next(first)
    x = x + 1
    look()
    second = generator("second", log)
    next(second)
    return log, x


def a_name_that_is_deleted(x, look):
    log = []
    first = Noted("first", log)
    look()
    del first
    log.append("deleted")
    second = Noted("second", log)
    return log, x + second.log.count("first")


def newer_locals(x, look):
    log = []
    first = Noted("first", log)
    look()
    first = Noted("second", log)
    log.append("assigned")
    look()
    return log, x + 1


@pytest.mark.parametrize("function", [generators, a_name_that_is_deleted, newer_locals])
@pytest.mark.parametrize("look", [locals, dir, vars, lambda: None])
def test_objects_die_in_the_order_of_plain_python(function, look):
    expected, x = function(np.ones(3), look)
    got, y = cdynamo.optimize(function)(np.ones(3), look)
    assert got == expected
    np.testing.assert_array_equal(y, x)


def test_in_a_loop():
    def function(x):
        log = []
        for i in range(3):
            noted = Noted(i, log)
            exec("log.append('exec')")
            x = x + 1
        del noted
        log.append("end")
        return log, x

    assert cdynamo.optimize(function)(np.ones(3))[0] == function(np.ones(3))[0]
