"""Programs with loops that a graph break leaves to Python: for and while, what they go over, how they are left."""

from __future__ import annotations

from saying import LOG, say

import cdynamo


@cdynamo.disable
def counted(n):
    """An iterator that cannot be looked into."""
    LOG.append(f"counted {n}")
    return iter(list(range(n)))


def produced(n):
    for i in range(n):
        say("produced", i)
        yield i


# ---- for


def a_for_loop(x, n):
    x = x * 2
    for _ in range(n):
        x = x + 1
        say()
    x = x + 2
    return x


def two_for_loops(x, n):
    x = x * 2
    for i in range(n):
        say("first", i)
        x = x + i
    x = x * 3
    for i in range(n):
        say("second", i)
        x = x - i
    return x * 4


def continue_by_a_value(x, n):
    x = x * 2
    for i in range(n):
        d = x.sum() - i * 20
        if d < 0:
            continue
        x = x + d
    x = x + 2
    return x


def break_by_a_value(x, n):
    x = x * 2
    for i in range(n):
        x = x + i
        if x.sum() > 20:
            break
    x = x + 2
    return x


def for_else(x, n):
    x = x * 2
    for i in range(n):
        say(i)
        if i == 2:
            x = x - 5
            break
        x = x + 1
    else:
        x = x * 7
    return x + 2


def return_in_a_loop(x, n):
    x = x * 2
    for i in range(n):
        say(i)
        if i == 2:
            return x - 1
        x = x + i
    x = x * 3
    return x + 2


def the_loop_variable_is_read_afterwards(x, n):
    x = x * 2
    i = -1
    for i in range(n):
        say(i)
    return x + i


def a_variable_is_deleted_in_the_loop(x, n):
    x = x * 2
    for i in range(n):
        y = x + i
        say(i)
        x = y * 2
        del y
    x = x + 1
    try:
        return y  # noqa: F821
    except UnboundLocalError:
        return x * 2


def a_variable_may_be_unbound_afterwards(x, n):
    x = x * 2
    for i in range(n):
        last = x + i
        say(i)
    try:
        return last * 2
    except UnboundLocalError as error:
        return str(error)


def a_loop_that_ends_the_function(x, n):
    x = x * 2
    values = []
    for i in range(n):
        say(i)
        values.append(x + i)
    return values


# ---- what is iterated over


def over_an_unknown_iterator(x, n):
    x = x * 2
    for i in counted(n):
        x = x + i
    x = x + 2
    return x


def over_a_generator(x, n):
    x = x * 2
    for i in produced(n):
        x = x + i
    x = x + 2
    return x


def over_a_generator_expression(x, n):
    x = x * 2
    for y in (x * i for i in range(n) if say(i)):
        x = x + y
    return x + 2


def over_a_generator_of_a_generator(x, n):
    def outer():
        yield from produced(n)
        yield 7

    x = x * 2
    for i in outer():
        say("got", i)
        x = x + i
    return x + 2


def over_the_rows_of_an_array(x, n):
    x = x * 2
    total = 0
    for row in x:
        say(row.shape)
        total = total + row
    return total * n + x


def over_zip_and_enumerate(x, n):
    x = x * 2
    for i, (a, b) in enumerate(zip(range(n), "abcdef")):
        say(i, a, b)
        x = x + a
    return x + 2


def over_dicts(x, n):
    values = {key: x * i for i, key in enumerate("abc"[:n])}
    for key in values:
        say(key)
        x = x + 1
    for key, value in values.items():
        say(key)
        x = x + value
    return x * 2


def an_iterator_used_by_two_loops(x, n):
    numbers = iter(range(n + 2))
    x = x * 2
    for i in numbers:
        say("first", i)
        x = x + i
        if i == 1:
            break
    x = x * 3
    for i in numbers:
        say("second", i)
        x = x - i
    return x, list(numbers)


# ---- while


def a_while_loop(x, n):
    x = x * 2
    i = 0
    while i < n:
        x = x + i
        say(i)
        i += 1
    x = x + 2
    return x


def while_by_a_value(x, n):
    x = x * 2
    while x.sum() < 10 * n:
        x = x + 1
    x = x + 2
    return x


def while_true(x, n):
    x = x * 2
    while True:
        x = x + 1
        say()
        if x.sum() > 10 * n:
            break
    x = x + 2
    return x


def while_else(x, n):
    x = x * 2
    while x.sum() < 10 * n:
        x = x + 1
        if say("w") and x.sum() > 25:
            break
    else:
        x = x * 5
    return x + 2


# ---- nested


def nested_loops(x, n):
    x = x * 2
    for i in range(n):
        for j in range(i):
            say(i, j)
            x = x + j
        x = x * 2
    x = x + 2
    return x


def a_break_in_the_inner_loop(x, n):
    x = x * 2
    for i in range(n):
        x = x + 1
        for j in range(3):
            if x.sum() > 30:
                break
            x = x + j
        else:
            x = x - 1
        if i == 3:
            continue
        x = x * 1.5
    return x + 2


def a_loop_in_a_comprehensible_loop(x, n):
    outputs = []
    for i in range(2):
        y = x * i
        for j in range(n):
            say(i, j)
            y = y + j
        outputs.append(y * 2)
    return outputs, x + 1


def while_in_for(x, n):
    x = x * 2
    for i in range(n):
        while x.sum() < 10 * i:
            x = x + 1
        x = x - i
    return x + 2


def return_from_the_inner_loop(x, n):
    x = x * 2
    for i in range(n):
        for j in range(n):
            say(i, j)
            if i + j == 3:
                return x + 10 * i + j
        x = x + i
    return x + 2
