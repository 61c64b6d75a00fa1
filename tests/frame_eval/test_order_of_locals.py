"""A frame that is resumed lets go of its locals in the order of its slots, as CPython does, whichever of them were bound at the break."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import cdynamo


class Thing:
    pass


def thing(name, log):
    made = Thing()
    weakref.finalize(made, log.append, name)
    return made


@cdynamo.disable
def outside(error=None):
    if error:
        raise error


def deleted(x, flag, log):
    first = second = None
    del first
    second = thing("second", log)
    outside()
    first = thing("first", log)
    return x + 1


def unbound(x, flag, log):
    if flag > 5:
        first = 1
    second = thing("second", log)
    outside()
    first = thing("first", log)
    return x + 1


def two_later(x, flag, log):
    if flag > 5:
        a = b = 1
    c = thing("c", log)
    outside()
    b = thing("b", log)
    outside()
    a = thing("a", log)
    outside()
    return x + 1


def handler(x, flag, log):
    if flag > 5:
        a = b = 1
    c = thing("c", log)
    try:
        outside(ValueError("told"))
    except ValueError:
        b = thing("b", log)
        a = thing("a", log)
    return x + 1


def helper(flag, log):
    if flag > 5:
        a = 1
    b = thing("b", log)
    outside()
    a = thing("a", log)
    return flag


def inner_call(x, flag, log):
    if flag > 5:
        p = 1
    q = thing("q", log)
    r = helper(flag, log)
    p = thing("p", log)
    return x + r


def loop(x, flag, log):
    if flag > 5:
        a = 1
    b = thing("b", log)
    for i in range(3):
        outside()
        a = thing(f"a{i}", log)
        if i == flag:
            return x
    return x + 1


def generator(x, flag, log):
    if flag > 5:
        a = 1
    b = thing("b", log)
    for i in (v * 2 for v in range(3)):
        outside()
        a = thing(f"a{i}", log)
    return x + i


def cell_above(x, flag, log):
    def read():
        return flag

    if flag > 5:
        a = 1
    b = thing("b", log)
    outside()
    a = thing("a", log)
    return x + read()


def deleted_argument(x, flag, log):
    del x
    b = thing("b", log)
    outside()
    x = thing("x", log)
    return flag


def held_by_a_function(x, flag, log):
    def read():
        return flag

    def read_later():
        return read()

    outside()
    flag = thing("flag", log)
    look = weakref.ref(flag, lambda reference: log.append("dead"))
    return x + 1


def cell_of_a_local(x, flag, log):
    def read():
        return held

    outside()
    held = thing("held", log)
    look = weakref.ref(held, lambda reference: log.append("dead"))
    return x + 1


def cell_that_a_generator_knows(x, flag, log):
    first = next(v for v in (outside(), flag) if flag)
    flag = thing("flag", log)
    look = weakref.ref(flag)
    outside()
    log.append((first, look() is None))
    return x + 1


class Base:
    def call(self, x, flag, log):
        return x + 3


class Derived(Base):
    def call(self, x, flag, log):
        if flag > 5:
            a = 1
        b = thing("b", log)
        outside()
        a = thing("a", log)
        return super().call(x, flag, log)


def names(x, flag, log):
    if flag > 5:
        a = 1
    b = 2
    outside()
    log.append(sorted(locals()))
    a = 3
    log.append(sorted(locals()))
    return x + 1


def read_while_unbound(x, flag, log):
    if flag > 5:
        a = 1
    b = 2
    outside()
    try:
        log.append(a)
    except UnboundLocalError as error:
        log.append(str(error))
    a = b
    return x + a


FUNCTIONS = [
    deleted,
    unbound,
    two_later,
    handler,
    inner_call,
    loop,
    generator,
    cell_above,
    deleted_argument,
    held_by_a_function,
    cell_of_a_local,
    cell_that_a_generator_knows,
    Derived().call,
    names,
    read_while_unbound,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__qualname__)
def test_the_order_of_ends(function):
    fast = cdynamo.optimize(function)
    for flag in (1, 1, 2, 7):
        expected, log = [], []
        plain = function(np.arange(3.0), flag, expected)
        gc.collect()  # an exception and its traceback hold each other
        got = fast(np.arange(3.0), flag, log)
        gc.collect()
        assert np.array_equal(plain, got)
        assert log == expected
