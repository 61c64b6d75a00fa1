"""Enums whose classes say in Python what their members do: that runs where the program runs it, and not while capturing."""

from __future__ import annotations

import enum

import pytest
from values_check import check

STATE = {"calls": 0}


class Step(enum.Enum):
    """Every method notes that it was called, and reads what the program has set."""

    FIRST = 1
    SECOND = 2

    def _note(self):
        STATE["calls"] += 1
        return STATE["calls"]

    def __lt__(self, other):
        return self._note() % 2 == 0 or self.value < other.value

    def __add__(self, other):
        return self._note() + other

    def __radd__(self, other):
        return other * self._note()

    def __neg__(self):
        return -self._note()

    def __contains__(self, item):
        return self._note() > item

    def __getitem__(self, item):
        return item, self._note()

    def __len__(self):
        return self._note()

    def __bool__(self):
        return self._note() > 3

    def __iter__(self):
        return iter([self._note(), self.value])

    def __call__(self, x):
        return x, self._note()

    def __int__(self):
        return self._note()

    def __index__(self):
        return self._note()

    def __str__(self):
        return f"{self.name} {self._note()}"

    @property
    def noted(self):
        return self._note()


class Scale(enum.Enum):
    DOUBLE = 2

    def __call__(self, x):
        return x * self.value

    def __mul__(self, x):
        return x * self.value

    def __rmul__(self, x):
        return x * self.value + 1

    def __eq__(self, other):
        return self.value == getattr(other, "value", other)

    __hash__ = enum.Enum.__hash__


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    RUN = enum.auto()
    BOTH = READ | WRITE


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Named(str, enum.Enum):
    ONE = "one"

    def __str__(self):
        return self.value + "!"


OPERATIONS = {
    "less": lambda: Step.FIRST < Step.SECOND,
    "greater": lambda: Step.FIRST > Step.SECOND,
    "sorted": lambda: sorted([Step.SECOND, Step.FIRST]),
    "min": lambda: min([Step.SECOND, Step.FIRST]),
    "add": lambda: (Step.FIRST + 3, 4 + Step.SECOND, sum([Step.FIRST, Step.SECOND])),
    "negative": lambda: -Step.FIRST,
    "in": lambda: (2 in Step.FIRST, 9 in Step.FIRST),
    "item": lambda: Step.FIRST["a"],
    "len": lambda: len(Step.SECOND),
    "truth": lambda: (bool(Step.FIRST), not Step.FIRST, "yes" if Step.SECOND else "no", Step.FIRST and 1),
    "iteration": lambda: [part for part in Step.SECOND],
    "call": lambda: Step.SECOND("x"),
    "int": lambda: (int(Step.FIRST), list(range(5, 45))[Step.FIRST]),
    "text": lambda: (str(Step.FIRST), f"{Step.FIRST} {Step.SECOND:>12}", "{}".format(Step.FIRST), "%s" % Step.SECOND),
    "property": lambda: (Step.FIRST.noted, Step.SECOND.noted),
    "method": lambda: Step.FIRST._note(),
    "lookup": lambda: (Step(2), Step(Step.FIRST), Step["SECOND"], Step.FIRST in Step),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_methods_of_members_run_where_the_program_is(operation):
    operate = OPERATIONS[operation]

    def program(start):
        STATE["calls"] = start
        results = [operate()]
        STATE["calls"] += 10
        return results, operate(), STATE["calls"]

    check(program, (0,), (1,), (2,))


def members_with_tensors(x):
    return Scale.DOUBLE(x), Scale.DOUBLE * x, x * Scale.DOUBLE, Scale.DOUBLE == 2, Scale.DOUBLE != 2, {Scale.DOUBLE: x}


def flags(n):
    both, names = Access.READ | Access.WRITE, []
    for flag in both:
        names.append(flag.name)
    return names, list(Access.BOTH), (*both,), Access.RUN in both, ~both, len(both), both ^ Access.READ, n


def bases_in_c(n):
    return (
        int.__repr__(Level.HIGH),
        int.__add__(Level.HIGH, n),
        str.__len__(Named.ONE),
        str.upper(Named.ONE),
        f"{Named.ONE} {Named.ONE!s} {str.__str__(Named.ONE)}",
    )


def test_members_beside_tensors():
    torch = pytest.importorskip("torch")

    import cdynamo

    compiled = cdynamo.optimize(members_with_tensors, fullgraph=True)
    for x in (torch.ones(2), torch.arange(3.0)):
        got, expected = compiled(x), members_with_tensors(x)
        assert got[3:5] == expected[3:5] and list(got[5]) == list(expected[5])
        assert all(torch.equal(a, b) for a, b in zip(got[:3], expected[:3], strict=True))


class Plain(enum.Enum):
    ONE = 1

    def __str__(self):
        return "one"


def texts(n):
    return (
        f"{Plain.ONE!r} {Plain.ONE} {[Plain.ONE]} {Plain.ONE!s:>5}",
        str([Plain.ONE, (Plain.ONE,)]),
        repr({"k": Plain.ONE}),
        "{} {!r}".format([Plain.ONE], Plain.ONE),
        "%s %r" % (Plain.ONE, Plain.ONE),
        [letter for letter in Named.ONE],
        ",".join(map(str, Plain)),
    )


@pytest.mark.parametrize("program", [flags, bases_in_c, texts])
def test_members(program):
    check(program, (3,))
