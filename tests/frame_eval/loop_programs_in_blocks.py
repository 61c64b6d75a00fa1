"""Programs with loops that a graph break leaves to Python, on a stack with other things, in `with`, `try` and closures."""

from __future__ import annotations

import contextlib

from loop_programs import a_break_in_the_inner_loop, a_for_loop, counted
from saying import Manager, say

# ---- with other things on the stack


def a_loop_in_a_called_function(x, n):
    return x * 2 + a_for_loop(x, n) * 3 + a_break_in_the_inner_loop(x, n)


def a_list_comprehension(x, n):
    x = x * 2
    values = [say(i) + x * i for i in range(n)]
    x = x + 1
    return values, x


def a_comprehension_on_a_stack(x, n):
    i = x * 2
    j = "kept"
    result = max(1, *[say(i) * i for i in range(n)], *(say(j) for j in range(2)))
    return i * result, j


def a_comprehension_with_an_unbound_name(x, n):
    x = x * 2
    pairs = {i: x * j for i in range(n) for j in range(i) if say(i, j)}
    x = x + 1
    try:
        return i
    except NameError:
        return pairs, x


def a_comprehension_over_an_iterator(x, n):
    x = x * 2
    values = {int(i) for i in counted(n)}
    return values, x + 1


def a_comprehension_with_a_captured_name(x, n):
    x = x * 2
    functions = [lambda i=i: say(i) and i * x for i in range(n)]
    late = [lambda: i for i in range(n) if say(i)]
    x = x + 1
    return [f() for f in functions], [f() for f in late], x


def a_comprehension_in_a_loop(x, n):
    x = x * 2
    for i in range(n):
        x = x + sum([say(k) * k for k in range(i)])
    return x + 2


def a_loop_between_conditions(x, n):
    y = x * 2 if n else x
    for i in range(n):
        say(i)
        y = (y + 1) if i % 2 else (y * 2)
    return y + (x if n > 1 else 2)


# ---- with and try


def a_loop_in_with(x, n):
    with Manager():
        x = x * 2
        for i in range(n):
            say(i)
            x = x + i
        x = x * 3
    return x + 2


def with_in_a_loop(x, n):
    x = x * 2
    for i in range(n):
        with Manager():
            x = x + i
            if i == 1:
                continue
            if i == 2:
                break
            x = x * 2
    x = x + 2
    return x


def return_from_with_in_a_loop(x, n):
    x = x * 2
    for i in range(n):
        with Manager(), contextlib.nullcontext():
            if i == 2:
                return x + 1
            x = x + i
    return x + 2


def a_loop_that_raises_in_with(x, n):
    x = x * 2
    with Manager(swallow=True):
        for i in range(n):
            x = x + i
            say(i)
            if i == 1:
                raise ValueError(i)
        x = x * 10
    return x + 2


def a_loop_in_try(x, n):
    x = x * 2
    try:
        for i in range(n):
            x = x + i
            say(i)
            if i == 2:
                raise KeyError(i)
        x = x * 10
    except KeyError as error:
        x = x - error.args[0]
    else:
        x = x * 5
    finally:
        say("finally")
    return x + 2


def try_in_a_loop(x, n):
    x = x * 2
    for i in range(n):
        try:
            say(i)
            if i % 2:
                raise ValueError(i)
            x = x + i
        except ValueError as error:
            x = x - error.args[0]
            if i == 3:
                break
        else:
            x = x * 2
        finally:
            say("finally")
    x = x + 2
    return x


def return_through_finally(x, n):
    x = x * 2
    for i in range(n):
        try:
            if i == 2:
                return x + 1
            x = x + i
        finally:
            say("finally", i)
    return x + 2


def an_exception_leaves_the_loop(x, n):
    x = x * 2
    for i in range(n):
        say(i)
        if i == 2:
            raise IndexError(i)
        x = x + 1
    return x + 2


def an_exception_leaves_the_iterator(x, n):
    def failing():
        yield 1
        if n == 3:
            raise ValueError("in the iterator")

    x = x * 2
    try:
        for i in failing():
            say(i)
            x = x + i
        x = x * 3
    except ValueError as error:
        say(error)
    return x + 2


def loops_with_match(x, n):
    x = x * 2
    for item in [1, "a", (2, 3), None][:n]:
        say(item)
        match item:
            case int():
                x = x + item
            case (a, b):
                x = x + a * b
                break
            case str():
                continue
    return x + 2


# ---- super() reads the first argument of its frame


class Steps:
    def step(self, x):
        say("step")
        return x + 1


class CountedSteps(Steps):
    def plain(self, x, n):
        x = x * 2
        for _ in range(n):
            x = super().step(x)
        return x + 2

    def with_self_in_a_closure(self, x, n):
        def read():
            return self

        x = x * 2
        for _ in range(n):
            bound = super()
            x = bound.step(x)
        say("between")
        bound = super()
        say(read() is self)
        return bound.step(x * 2), super().step(x)

    def with_another_in_a_closure(self, x, n):
        def read():
            return n

        x = x * 2
        for _ in range(read()):
            say("between")
            x = super().step(x)
        return super().step(x) * read()

    def of_a_class(cls, x, n):
        x = x * 2
        for _ in range(n):
            say(cls.__name__)
            x = super().step(cls(), x)
        return x * 2, lambda: cls

    of_a_class = classmethod(of_a_class)


def super_in_a_loop(x, n):
    return CountedSteps().plain(x, n)


def super_with_self_in_a_closure(x, n):
    return CountedSteps().with_self_in_a_closure(x, n)


def super_with_another_in_a_closure(x, n):
    return CountedSteps().with_another_in_a_closure(x, n)


def super_of_a_class(x, n):
    return CountedSteps.of_a_class(x, n)[0]


# ---- closures


def a_loop_over_a_cell(x, n):
    def add(k):
        nonlocal x
        say(k)
        x = x + k

    x = x * 2
    for i in range(n):
        add(i)
    x = x + 2
    return x


def a_loop_variable_that_is_a_cell(x, n):
    x = x * 2
    functions = []
    for i in range(n):
        say(i)
        functions.append(lambda: i)
    x = x + 2
    return x, [f() for f in functions]
