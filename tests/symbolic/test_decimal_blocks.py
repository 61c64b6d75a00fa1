"""decimal.localcontext() in captured code: what is computed in a block goes by the block's context."""

from __future__ import annotations

import decimal
from decimal import Decimal

import pytest
from values_check import check

import cdynamo


def third():
    with decimal.localcontext() as context:
        context.prec = 5
        inside = Decimal(1) / Decimal(3), context.prec, decimal.getcontext().prec, decimal.getcontext() is context
    return inside, Decimal(1) / Decimal(3)


def given_by_name():
    with decimal.localcontext(prec=6, rounding=decimal.ROUND_UP) as context:
        return Decimal(2) / 3, context.rounding, round(Decimal("2.5")), Decimal("1.23456789") + 0


def one_in_another():
    found = []
    with decimal.localcontext(prec=10) as outer:
        found.append(Decimal(1) / 7)
        with decimal.localcontext() as inner:
            inner.prec -= 6
            found.append((Decimal(1) / 7, inner.prec, outer.prec))
        found.append(Decimal(1) / 7)
    return found, Decimal(1) / 7


def left_by_an_error():
    try:
        with decimal.localcontext(prec=3):
            Decimal(1) / Decimal(0)
    except ZeroDivisionError:
        return Decimal(1) / Decimal(7)


def left_by_return(n):
    for prec in range(2, 9):
        with decimal.localcontext(prec=prec):
            value = Decimal(1) / Decimal(n)
            if prec > 4:
                return value


def wrong_numbers():
    found = []
    for number in (0, "a"):
        try:
            with decimal.localcontext() as context:
                context.prec = number
        except (ValueError, TypeError) as error:
            found.append(type(error).__name__)
    return found, Decimal(1) / 3


def in_a_function():
    def rounded(value, digits):
        with decimal.localcontext() as context:
            context.prec = digits
            return +value

    return [rounded(Decimal("3.14159265"), digits) for digits in (2, 4, 6)]


@pytest.mark.parametrize("fn", [third, given_by_name, one_in_another, left_by_an_error, wrong_numbers, in_a_function])
def test_blocks(fn):
    check(fn)


def test_numbers_of_calls():
    check(left_by_return, (3,), (7,), (9,))


def test_the_context_around_is_guarded():
    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(third, fullgraph=True)
    for prec in (28, 12, 28, 7):
        with decimal.localcontext(prec=prec) as context:
            assert fast() == third() and decimal.getcontext() is context and context.prec == prec


def test_what_leaves_a_block_is_left_to_python():
    def program():
        with decimal.localcontext(prec=4) as context:
            value = Decimal(1) / 3
        return value, context

    def flags():
        with decimal.localcontext() as context:
            Decimal(1) / 3
            return context.flags[decimal.Inexact]

    def of_another():
        with decimal.localcontext(decimal.Context(prec=3)):
            return Decimal(1) / 3

    def set_outside():
        decimal.getcontext().prec = 9
        return Decimal(1) / 3

    for fn in (program, flags, of_another):
        fast = cdynamo.optimize(fn)
        for _ in range(2):
            assert str(fast()) == str(fn())
    with decimal.localcontext():
        fast = cdynamo.optimize(set_outside)
        assert fast() == set_outside() == fast() and decimal.getcontext().prec == 9


def test_flags_of_a_block_stay_there():
    def program():
        with decimal.localcontext(prec=4):
            value = Decimal(1) / 3
        return value

    cdynamo.config.keep_empty_graphs = True
    for fn in (program, cdynamo.optimize(program, fullgraph=True)):
        with decimal.localcontext() as context:
            context.clear_flags()
            assert fn() == Decimal("0.3333") and not context.flags[decimal.Inexact]


def test_a_break_within_a_block():
    @cdynamo.disable
    def precision():
        return decimal.getcontext().prec

    def program(n):
        with decimal.localcontext() as context:
            context.prec = n
            first = Decimal(1) / 3
            asked = precision()
            return first, asked, Decimal(1) / 7

    fast = cdynamo.optimize(program)
    for n in (3, 5, 5, 4):
        assert fast(n) == program(n)
        assert decimal.getcontext().prec == 28
