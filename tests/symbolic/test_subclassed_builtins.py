"""Subclasses of builtin types: which of their methods the builtin types' own operations call, and which they pass by."""

from __future__ import annotations

from collections import OrderedDict, defaultdict

import pytest
from values_check import check, check_equal

import cdynamo


class Marked(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, ("set", value))


class Frozen(OrderedDict):
    def __setitem__(self, key, value):
        if key == "c":
            raise ValueError("frozen")
        super().__setitem__(key, value)


def logging(base):
    class Logging(base):
        def __setitem__(self, key, value):
            log.append(("set", key))
            super().__setitem__(key, value)

        def __getitem__(self, key):
            log.append(("get", key))
            return super().__getitem__(key)

        def __delitem__(self, key):
            log.append(("del", key))
            super().__delitem__(key)

        def __contains__(self, key):
            log.append(("in", key))
            return super().__contains__(key)

        def keys(self):
            log.append("keys")
            return super().keys()

    log = []
    Logging.log = log
    return Logging


LoggingDict, LoggingOrdered = logging(dict), logging(OrderedDict)


class IteratingDict(LoggingDict):
    def __iter__(self):
        self.log.append("iter")
        return super().__iter__()


class Shown(dict):
    def keys(self):
        return ["a"]

    def __iter__(self):
        return iter(["a"])


def keywords(**given):
    return given


OPERATIONS = {
    "pop": lambda d: d.pop("a"),
    "pop of none": lambda d: d.pop("z", 1),
    "popitem": lambda d: d.popitem(),
    "setdefault": lambda d: (d.setdefault("a", 5), d.setdefault("q", 1)),
    "update": lambda d: d.update(type(d)(x=1)),
    "update with pairs": lambda d: d.update([("q", 1)], r=2),
    "update of a dict": lambda d: {}.update(d),
    "ior": lambda d: d.__ior__({"q": 1}),
    "or": lambda d: isinstance(d, OrderedDict) or d | {"q": 1},
    "ror": lambda d: isinstance(d, OrderedDict) or {"q": 1} | d,
    "copy": lambda d: isinstance(d, OrderedDict) or d.copy(),
    "dict": lambda d: dict(d),
    "OrderedDict": lambda d: OrderedDict(d),
    "display": lambda d: {**d},
    "keywords": lambda d: keywords(**d),
    "init": lambda d: d.__init__(q=1),
    "views": lambda d: (list(d.values()), list(d.items()), list(reversed(d)), d == {"a": 1, "b": 2}),
}


@pytest.mark.parametrize("cls", [LoggingDict, LoggingOrdered, IteratingDict])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_which_methods_of_a_dict_are_called(cls, operation):
    def program(n):
        d = cls(a=n, b=2)
        cls.log.clear()
        result = OPERATIONS[operation](d)
        return result, list(cls.log), list(d.items())

    check(program, (1,))


def assigned(d):
    d.update(a=1)
    d |= {"b": 2}
    d.setdefault("c", 3)
    return d["a"], d["b"], d["c"], Marked(d=4)["d"], d


def made_and_returned(n):
    d = Marked()
    d.update(a=n)
    return d["a"], d


def raising(n):
    d = Frozen(b=n)
    try:
        d.update(c=3)
    except ValueError as error:
        return str(error), d


def merged(d):
    return {"q": 1} | d, d | {"q": 1}, d.copy(), dict(d), {**d}


class Listing(defaultdict):
    def __init__(self, n):
        super().__init__(list, z=n)


class Defaulting(defaultdict):
    pass


def defaults(n):
    listing, counting, plain = Listing(n), Defaulting(int, a=n), defaultdict(list, a=n)
    listing["q"].append(n)
    counting["b"] += 1
    plain.__init__(z=n)
    return listing, counting, plain, listing.default_factory, counting.default_factory, plain.default_factory


def test_factories_of_defaultdicts():
    compiled = cdynamo.optimize(defaults)
    for _ in range(2):
        result = compiled(1)
        assert result == defaults(1)
        assert [d.default_factory for d in result[:3]] == [list, int, None]


def wrong_pairs(n):
    found = []
    for given in ("ab", [1], [(1, 2, 3)], [[]]):
        for kind in (OrderedDict, dict):
            try:
                kind(given)
            except (TypeError, ValueError) as error:
                found.append((type(error), str(error)))
    return found


def test_ordered_dicts_call_the_setter():
    check(assigned, (Marked(),))
    check(made_and_returned, (1,))
    check(raising, (1,))
    check(merged, (Shown(a=1, b=2),))
    check(wrong_pairs, (1,))


class Adding(int):
    def __add__(self, other):
        return "add"

    def __isub__(self, other):
        return "isub"


class Longer(tuple):
    def __add__(self, other):
        return "longer"


class Text(str):
    def __add__(self, other):
        return "text"


class Half(float):
    def __mul__(self, other):
        return "half"


def in_place(i, t, s, f):
    i += 1
    t += (1,)
    s += "q"
    f *= 2
    j = Adding(4)
    j -= 1
    k = Adding(4)
    k *= 2
    return i, t, s, f, j, k


class Right(int):
    def __radd__(self, other):
        return "radd"

    def __rmul__(self, other):
        return "rmul"

    def __eq__(self, other):
        return True

    def __gt__(self, other):
        return "gt"

    __hash__ = int.__hash__


class RightFloat(float):
    def __radd__(self, other):
        return "radd"


def reflected(i, f):
    of_numbers = [2.5 + i, True + i, 2j + i, 2 + i, 2.5 == i, 3 == i, 2j + f, 2 + f]
    return of_numbers, [i in [2.5], [2.5].count(i), 2.5 < i, i + 2.5, [1] * i, [1, 2].count(i)]


def of_tensors(x, i, f):
    return x + i, x * i, x == i, x + f, i - x


def not_there(i):
    try:
        return [2.5].index(i)
    except ValueError:
        return "not there"


class Converted(int):
    calls = []

    def __int__(self):
        self.calls.append(1)
        return 9


def not_converted(i):
    return i + 1, [0, 1, 2, 3, 4][:i], list(range(i)), len(Converted.calls)


class Divided(int):
    def __divmod__(self, other):
        return "divmod"

    def __rdivmod__(self, other):
        return "rdivmod"


class DividedToo(Divided):
    pass


class DividedFloat(float):
    def __rdivmod__(self, other):
        return "rdivmod"


def divided(i, f):
    plain = Adding(7)
    return (
        divmod(i, DividedToo(2)),
        divmod(i, 2),
        divmod(7, i),
        divmod(7.5, i),
        divmod(7, f),
        divmod(plain, 2),
        divmod(7, plain),
        divmod(plain, f),
    )


def test_operators_of_numbers():
    check(in_place, (Adding(3), Longer((1,)), Text("t"), Half(0.5)))
    check(reflected, (Right(3), RightFloat(3.0)))
    torch = pytest.importorskip("torch")
    operands = torch.ones(1), Right(3), RightFloat(3.0)
    check_equal(cdynamo.optimize(of_tensors)(*operands), of_tensors(*operands))
    check(not_there, (Right(3),), breaks=1)
    check(not_converted, (Converted(3),))
    check(divided, (Divided(3), DividedFloat(2.0)))


class Ending:
    def __init__(self):
        self.i = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.i += 1
        if self.i < 3:
            return self.i
        raise StopIteration(self.i)


def delegated(n):
    def items():
        value = yield from Ending()
        yield ("value", value)

    return list(items()), n


class Numbered(tuple):
    def __getitem__(self, i):
        return f"item{i}"


class Counted(list):
    def __len__(self):
        return 5

    def __getitem__(self, i):
        return "item"


def backwards(t, n):
    made = Counted([1, 2])
    return list(reversed(t)), list(reversed(n)), list(reversed(made)), reversed(Counted([1, 2, n]))


class Getting(dict):
    def get(self, key, default=None):
        return "from get"


def matched(d, plain):
    found = []
    for subject in (d, plain, Getting(), defaultdict(list, b=1)):
        match subject:
            case {"a": value}:
                found.append(value)
            case _:
                found.append("none")
    return found


class Named(int):
    def __str__(self):
        return "text"

    def __format__(self, spec):
        return super().__format__(spec)


def formatted(i):
    return f"{i}", f"{i:3}", format(i), int.__format__(i, ""), f"{Named(4)}"


def test_protocols():
    check(delegated, (1,))
    check(backwards, (Numbered((1, 2)), Counted([1, 2])))
    check(matched, (Getting(a=1), LoggingDict(a=2)))
    check(formatted, (Named(3),))
