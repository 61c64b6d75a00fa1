"""What is there in one call and not in the next: names, attributes, items, of every kind of owner, that a function reads, asks for,
writes and deletes. Plain Python's outcome each time, and what it leaves.

    python tests/sweeps/presence.py                  # a minute on one core
    python tests/sweeps/presence.py --seed 3 --count 20000

A program has one owner and up to three statements; it is called four times, with something else there each time, plain and compiled,
under the native backend and under a callable one. Prints what differs, and at the end 'N same, M differ'. Exit status 1 if M is not 0.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import io
import logging
import random
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from typing import Any

import cdynamo

try:
    import torch
except ImportError:
    torch = None


class Plain:
    pass


class Slot:
    __slots__ = ("k",)


class Answers:
    def __getattr__(self, name):
        if name == "k":
            return "answered"
        raise AttributeError(name)


class Base:
    pass


class Derived(Base):
    pass


class Meta(type):
    pass


class OfMeta(metaclass=Meta):
    pass


class Property:
    @property
    def k(self):
        if not hasattr(self, "_k"):
            raise AttributeError("k")
        return self._k

    @k.setter
    def k(self, value):
        self._k = value

    @k.deleter
    def k(self):
        del self._k


class Descriptor:
    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        if "kept" not in instance.__dict__:
            raise AttributeError("k")
        return instance.__dict__["kept"]

    def __set__(self, instance, value):
        instance.__dict__["kept"] = value

    def __delete__(self, instance):
        instance.__dict__.pop("kept")


class Described:
    k = Descriptor()


class Missing(dict):
    def __missing__(self, key):
        if key != "k":
            raise KeyError(key)
        return "missing"


class Hooked:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, (value, "set"))

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


@dataclasses.dataclass
class Data:
    other: int = 1


@dataclasses.dataclass(frozen=True)
class Owner:
    """Of `c.k`, as expressions and statements over `c`; `pop` gives what it takes away."""

    made: str
    read: str
    delete: str
    write: str  # with {v}
    has: str
    get: str
    pop: str | None


def attribute(made: str, c: str = "c", pop: bool = True, of: str | None = None) -> Owner:
    of = of or c
    has, get = f"hasattr({c}, 'k')", f"getattr({c}, 'k', -1)"
    return Owner(
        made, f"{c}.k", f"del {of}.k", f"{of}.k = {{v}}", has, get, f"{c}.__dict__.pop('k', -1)" if pop else None
    )


def item(made: str, key: str = "'k'", c: str = "c") -> Owner:
    read = f"{c}[{key}]"
    return Owner(
        made, read, f"del {read}", read + " = {v}", f"{key} in {c}", f"{c}.get({key}, -1)", f"{c}.pop({key}, -1)"
    )


def place(made: str, i: int, add: str) -> Owner:
    has = f"len(c) > {i}"
    return Owner(made, f"c[{i}]", f"del c[{i}]", f"c.{add}", has, f"(c[{i}] if {has} else -1)", None)


OWNERS = {
    "global": Owner(
        "None", "K", "del K", "K = {v}", "'K' in globals()", "globals().get('K', -1)", "globals().pop('K', -1)"
    ),
    "instance": attribute("Plain()"),
    "class": attribute("Derived", pop=False),
    "class of an instance": attribute("Derived()", pop=False, of="type(c)"),
    "base class": attribute("Derived()", pop=False, of="Base"),
    "metaclass": attribute("OfMeta", pop=False, of="type(c)"),
    "module": attribute("types.ModuleType('m')"),
    "function": attribute("(lambda: 0)"),
    "slot": attribute("Slot()", pop=False),
    "namespace": attribute("types.SimpleNamespace()"),
    "thread's own": attribute("threading.local()"),
    "partial": attribute("functools.partial(int)"),
    "exception": attribute("ValueError('x')"),
    "dataclass": attribute("Data()"),
    "__getattr__": attribute("Answers()"),
    "property": attribute("Property()", pop=False),
    "descriptor": attribute("Described()", pop=False),
    "__setattr__": attribute("Hooked()"),
    "attribute of an attribute": attribute("types.SimpleNamespace(a=Plain())", "c.a"),
    "__dict__": item("Plain()", c="c.__dict__"),
    "dict": item("{}"),
    "dict of ints": item("{}", "3"),
    "dict in a dict": item("{'a': {}}", c="c['a']"),
    "OrderedDict": item("collections.OrderedDict()"),
    "defaultdict": item("collections.defaultdict(list)"),
    "Counter": item("collections.Counter()"),
    "ChainMap": item("collections.ChainMap({}, {'q': 9})"),
    "ChainMap over it": item("collections.ChainMap({}, {'k': 9})"),
    "UserDict": item("collections.UserDict()"),
    "__missing__": item("Missing()"),
    "list": place("[]", 0, "insert(0, {v})"),
    "end of a list": place("[9, 9]", 2, "append({v})"),
    "deque": place("collections.deque()", 0, "appendleft({v})"),
}
if torch:
    OWNERS |= {
        "nn.Module": attribute("torch.nn.Linear(1, 1)"),
        "nn.Module in one": attribute("torch.nn.Sequential(torch.nn.Linear(1, 1))", "c[0]"),
        "tensor": attribute("torch.ones(2)"),
    }

STATEMENTS = {
    "read": "r.append({read})",
    "try to read": "try: r.append({read})\n    except ERRORS as e: r.append(repr(e))",
    "has": "r.append({has})",
    "get": "r.append({get})",
    "delete": "{delete}",
    "try to delete": "try:\n        {delete}\n        r.append('deleted')\n    except ERRORS as e: r.append(type(e).__name__)",
    "write": "{write_7}",
    "write what came in": "{write_t}",
    "pop": "r.append({pop})",
    "branch": "if {has}: t = t + 1\n    else: t = t * 3",
    "is": "r.append(({get} is -1, {get} is 1, {get} is T))",
    "type": "r.append(isinstance({get}, str))",
    "inner": "def inner():\n        try: return {read}\n        except ERRORS as e: return repr(e)\n    r.append(inner())",
    "lambda": "q = lambda: {get}\n    {write_t}\n    r.append(q())",
    "generator": "r.extend({get} for _ in range(2))",
    "break": "graph_break()",
    "break between": "v = {get}\n    graph_break()\n    r.append((v, {get}))",
    "add": "{read} += 1",
    "try to add": "try: {read} += 1\n    except Exception as e: r.append(type(e).__name__)",
    "finally": "try:\n        {write_7}\n        r.append({read})\n    finally:\n        {delete}",
    "loop": "for _ in range(2):\n        {write_t}\n        r.append({read})\n        {delete}",
    "add to the tensor": "if {has}:\n        try: t = t + {read}\n        except TypeError as e: r.append(type(e).__name__)",
    "print": "print({get}, file=io.StringIO())",
    "keep": "v = {get}\n    {write_7}\n    r.append(v)",
}
VALUES = (None, None, "1", "2", "'s'", "None", "2.5", "T", "1")  # None: nothing is there
ERRORS = (AttributeError, KeyError, NameError, IndexError)
NAMES = {name: value for name, value in globals().items() if isinstance(value, type)} | {
    "ERRORS": ERRORS,
    "torch": torch,
}
NAMES |= {module.__name__: module for module in (collections, functools, io, threading, types)}


@dataclasses.dataclass(frozen=True)
class Program:
    owner: str
    statements: tuple[str, ...]
    values: tuple[str | None, ...]

    def source(self) -> str | None:
        owner = OWNERS[self.owner]
        if "pop" in self.statements and owner.pop is None:
            return None
        writes = {"write_7": owner.write.format(v=7), "write_t": owner.write.format(v="t")}
        lines = [STATEMENTS[name].format(**dataclasses.asdict(owner), **writes) for name in self.statements]
        first = ["global K"] if self.owner == "global" else []
        return "def f(t, c, r):\n    " + "\n    ".join([*first, *lines, "return t"])


def described(value: Any) -> Any:
    if torch and isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [described(each) for each in value]
    return type(value).__name__, repr(value).split(" at 0x")[0]


def outcomes(program: Program, backend: str | None) -> list:
    """Of each call: what is returned or raised, what the program noted, and what is there afterwards."""
    owner = OWNERS[program.owner]
    start = torch.arange(3.0) if torch else 3.0
    space = NAMES | {"T": start * 1, "graph_break": cdynamo.graph_break}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `is` with a literal
        exec(compile(program.source(), "<program>", "exec"), space)
    f = cdynamo.optimize(space["f"], backend=backend) if backend else space["f"]
    c = eval(owner.made, space)
    local = {"c": c}
    run = lambda code: exec(code, space) if program.owner == "global" else exec(code, space, local)  # noqa: E731

    def clear() -> None:
        for cls in (Derived, Base, OfMeta, Meta):
            if "k" in cls.__dict__:
                del cls.k
        for _ in range(3):
            if eval(owner.has, space, local):
                try:
                    run(owner.delete)
                except ERRORS:
                    break

    seen = []
    for value in program.values:
        clear()
        if torch:
            space["T"].copy_(start)
        if value is not None:
            run(owner.write.format(v=value))
        noted: list = []
        try:
            result = described(f(start * 1, c, noted))
        except Exception as error:
            result = type(error).__name__, str(error)
        after = [described(eval(code, space, local)) for code in (owner.has, owner.get)]
        seen.append((result, described(noted), after))
    clear()
    return seen


def programs(seed: int, count: int) -> Iterator[Program]:
    draw = random.Random(seed)
    for _ in range(count):
        owner, size = draw.choice(list(OWNERS)), draw.choice([1, 1, 2, 2, 3])
        program = Program(
            owner,
            tuple(draw.choice(list(STATEMENTS)) for _ in range(size)),
            tuple(draw.choice(VALUES) for _ in range(4)),
        )
        if program.source() is not None:
            yield program


class InternalErrors(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "internal error" in record.getMessage():
            self.messages.append(record.getMessage())


def difference(program: Program) -> str | None:
    """The first call whose outcome differs, or an internal error; None where there is none."""
    expected = outcomes(program, None)
    for backend in ("native", "eager"):
        cdynamo.reset()
        errors = InternalErrors()
        logging.getLogger("cdynamo").addHandler(errors)
        try:
            got = outcomes(program, backend)
        finally:
            logging.getLogger("cdynamo").removeHandler(errors)
        for i, (want, have) in enumerate(zip(expected, got, strict=True)):
            if want != have:
                return f"{program}\n{program.source()}\ncall {i}, {backend}\n  plain    {want}\n  compiled {have}"
        if errors.messages:
            return f"{program}\n{program.source()}\n{backend}: {errors.messages[0]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=5000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    same = differ = 0
    for program in programs(options.seed, options.count):
        found = difference(program)
        differ += found is not None
        same += found is None
        if found:
            print(found, end="\n\n")
    print(f"{same} same, {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
