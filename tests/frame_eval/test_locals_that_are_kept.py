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


def evaluated_in_a_call(x):
    exec("a = x + 1")
    return eval("a")


def evaluated(x):
    exec("a = x + 1")
    return eval("a"), evaluated_in_a_call(a_call(x)), eval("a, sorted(locals())")


def a_call(x):
    return x * 2


def deleted_after_a_look(x):
    y = 1
    exec("z = y")
    del y
    cdynamo.graph_break()
    exec("pass")
    return eval("y + z")


def in_turns(x):
    exec("total = 0")
    for i in range(4):
        exec("total = total + i")
        cdynamo.graph_break()
    return eval("total")


def of_each_frame(x):
    if x == 0:
        return eval("sorted(locals())")
    exec("name%d = x" % x)
    below = of_each_frame(x - 1)
    return below, eval("sorted(locals())")


def with_cells(x):
    y = x
    read = lambda: y
    exec("q = y + 1")
    cdynamo.graph_break()
    y = 5
    return eval("q, y"), read()


def outcome(function, *args):
    try:
        return function(*args)
    except NameError as error:  # from 3.13 on exec writes to a snapshot
        return str(error)


@pytest.mark.parametrize(
    "function", [evaluated, deleted_after_a_look, in_turns, of_each_frame, with_cells], ids=lambda f: f.__name__
)
def test_what_exec_writes_is_there_for_eval(function):
    compiled = cdynamo.optimize(function)
    for _ in range(2):
        assert outcome(compiled, 2) == outcome(function, 2)


def test_one_dict_in_each_turn():
    def program(x):
        log = []
        first = generator("first", log)
        next(first)
        exec("pass")
        second = generator("second", log)
        next(second)
        for _ in range(3):
            eval("1 + 1")
        return log

    assert cdynamo.optimize(program)(1) == program(1)
