"""What Python's operators and opcodes refuse, as a program that catches the exception sees it: the type and the words."""

from __future__ import annotations

import re

import pytest

import cdynamo

np = pytest.importorskip("numpy")


class Plain:
    pass


def function(*args, **kwargs):
    return args, kwargs


VALUES = {
    "list": lambda: [1],
    "int": lambda: 3,
    "tuple": lambda: (1,),
    "str": lambda: "s",
    "dict": lambda: {1: 2},
    "set": lambda: {1},
    "None": lambda: None,
    "float": lambda: 2.5,
    "object": Plain,
    "bytes": lambda: b"x",
    "class": lambda: Plain,
    "function": lambda: function,
}
OF_TWO = [
    "a + b", "a * b", "a - b", "a @ b", "a % b", "a | b", "a < b", "a ** b", "a // b", "a & b", "a << b", "a[b]", "b in a",
    "divmod(a, b)", "pow(a, b)", "isinstance(a, b)", "issubclass(a, b)", "getattr(a, b)",
]  # fmt: skip
OF_ONE = [
    "-a", "~a", "a()", "len(a)", "abs(a)", "int(a)", "float(a)", "iter(a)", "next(a)", "a.nothing", "hash(a)", "round(a)",
    "[*a]", "function(*a)", "function(1, *a)", "function(**a)", "function(x=1, **a)", "sum(a)", "max(a)", "sorted(a)",
    "list(a)", "set(a)", "chr(a)", "ord(a)", "range(a)", "enumerate(a)", "complex(a)",
]  # fmt: skip


def program(statement):
    source = f"""
def f(x, left, right):
    x = x + 1
    a, b = VALUES[left](), VALUES[right]()
    result = None
    try:
        {statement}
    except Exception as error:
        return repr(error), x
    return type(result), x
"""
    names = {"function": function, "VALUES": VALUES}
    exec(source, names)
    return names["f"]


def check(statement, rights):
    f = program(statement)

    def outcome(f, left, right):
        try:
            return re.sub("0x[0-9a-f]+", "0x", str(f(np.ones(1), left, right)[0]))
        except Exception as error:
            return f"raised {error!r}"

    for left in VALUES:
        for right in rights:
            assert outcome(cdynamo.optimize(f), left, right) == outcome(f, left, right), (left, right)


@pytest.mark.parametrize("statement", [f"result = {op}" for op in OF_TWO] + ["a[b] = 1", "del a[b]"])
def test_two_operands(statement):
    check(statement, VALUES)


@pytest.mark.parametrize("statement", [f"result = {op}" for op in OF_ONE] + ["x, y = a", "x, *y = a", "[x] = a"])
def test_one_operand(statement):
    check(statement, ["int"])
