"""What builtin functions, library objects and generators check where they are called: the program's own `except` sees it, in Python's
words, whether or not what would have been made is used."""

from __future__ import annotations

import collections
import functools
import itertools
import operator

import pytest

import cdynamo

np = pytest.importorskip("numpy")


class NoText:
    def __str__(self):
        return 5

    def __repr__(self):
        return None


class NoIterator:
    def __init__(self, given):
        self.given = given

    def __iter__(self):
        return self.given


class Mapping:
    """A mapping by what the instance has."""

    def __init__(self):
        self.keys = lambda: ["a"]

    def __getitem__(self, key):
        if key == "a":
            return 5
        if key > 1:
            raise IndexError
        return key, 7


class Index:
    def __index__(self):
        return 2


class Half:
    def __float__(self):
        return 0.5


class Frozen(frozenset):
    pass


class Without:
    __add__ = __getitem__ = __bool__ = __contains__ = __hash__ = __iter__ = __reversed__ = None


NAMES = {
    "Frozen": Frozen,
    "Half": Half,
    "Index": Index,
    "Mapping": Mapping,
    "NoIterator": NoIterator,
    "NoText": NoText,
    "Without": Without,
    "collections": collections,
    "functools": functools,
    "itertools": itertools,
    "operator": operator,
}
BOUNDS = ["1.5", "'a'", "-1", "-2", "0, -1", "0, -2", "-1, 3", "'a', 3", "0, 'b'", "0, 4, 'c'", "0, 4, 0", "10**30", "None",
          "None, None, None", "1, None, 2", "Index()", "True", "1, 2, 3, 4"]  # fmt: skip
NUMBERS = ["-1", "'a'", "1.5", "0", "2", "None", "Index()", "True"]
EXPRESSIONS = [
    # made late
    "collections.defaultdict(5)", "collections.defaultdict(None)", "collections.defaultdict(int, 1, 2)",
    "functools.partial(5)", "functools.partial(None, 1)", "itertools.count('a')", "itertools.count(None)",
    "itertools.count(1, 'a')", "next(itertools.count(Half()))", "next(itertools.count(1.5, 2))", "iter(5, 6)",
    "list(itertools.islice([1]))", "list(itertools.islice(5, 'a'))", "list(itertools.product(repeat=3))",
    # mappings
    "dict(Mapping())", "{**Mapping()}", "collections.OrderedDict(Mapping())", "collections.defaultdict(int, Mapping())",
    "{**5}", "{**[1]}", "dict([], [])", "collections.OrderedDict(1, 2)", "collections.OrderedDict().popitem()", "{}.popitem()",
    # what methods return
    "str(NoText())", "repr(NoText())", "f'{NoText()}'", "f'{NoText()!r}'", "'%s' % NoText()", "'{}'.format(NoText())",
    "print(NoText())", "str([NoText()])", "iter(NoIterator(5))", "list(zip(NoIterator([1])))", "list(NoIterator(iter([1])))",
    "[*NoIterator(None)]", "type(Frozen('a').copy())", "type(frozenset.copy(Frozen('a')))",
    # builtin functions
    "max(1, 2, default=3)", "min(1, 2, default=3, key=abs)", "max([], default=3)", "sum(iterable=[1])", "sum([1], start=2)",
    "sorted([2, 1], reverse='a')", "sorted([2, 1], reverse=None)", "sorted([1, 2], reverse=2)", "[1].sort(reverse=1.5)",
    "sorted([1, 2], reverse=Index())", "int.__new__(str)", "tuple.__new__(list, [1])", "vars(5)", "object(1)",
    "operator.concat(1, 2)", "operator.concat([1], [2])", "operator.concat([1], 2)", "operator.concat('a', 'b')",
    "operator.concat({}, {})", "operator.add(1)", "operator.and_(1, 2, 3)", "operator.le(1)", "functools.reduce(max, 5)",
    "collections.deque([1]) + [2]",
    # methods that are None
    "Without() + 1", "Without()[0]", "bool(Without())", "1 in Without()", "hash(Without())", "{Without()}", "iter(Without())",
    "reversed(Without())",
    *[f"list(itertools.islice([1, 2, 3, 4, 5, 6], {bounds}))" for bounds in BOUNDS],
    *[f"list(itertools.product([1, 2], repeat={n}))" for n in NUMBERS],
    *[f"list(itertools.{kind}([1, 2], {n}))" for kind in ("combinations", "combinations_with_replacement", "permutations")
      for n in NUMBERS],
    *[f"len(itertools.tee([1, 2], {n}))" for n in NUMBERS],
]  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_checks_its_arguments(expression):
    source = f"""
def f(x, used):
    x = x + 1
    try:
        result = {expression}
    except Exception as error:
        return repr(error), x
    finally:
        x = x * 2
    return result if used else None, x
"""
    names = dict(NAMES)
    exec(source, names)
    f = names["f"]
    compiled = cdynamo.optimize(f)
    for used in (True, False):
        plain, got = f(np.ones(1), used), compiled(np.ones(1), used)
        assert type(got[0]) is type(plain[0])
        assert repr(got[0]) == repr(plain[0])
        assert got[1] == plain[1]


@pytest.mark.parametrize(
    "statement",
    ["items[0:2] = 1", "items[::2] = 1", "raise IndexError from 5", "h = (n for n in items); next(h); h.throw(list)"],
)
def test_refuses_in_pythons_words(statement):
    source = f"""
def f(x):
    items = [1, 2, 3]
    try:
        {statement}
    except Exception as error:
        return repr(error), items, x + 1
"""
    names: dict = {}
    exec(source, names)
    assert cdynamo.optimize(names["f"])(np.ones(1)) == names["f"](np.ones(1))


# ---- generators that hand on what is raised in them


class Items:
    def __init__(self, log):
        self.log = log

    def __iter__(self):
        return self

    def __next__(self):
        return 1


class Closable(Items):
    def throw(self, *given):
        self.log.append(("throw", [part if isinstance(part, type) else repr(part) for part in given]))
        return 7

    def close(self):
        self.log.append("close")


class Stops(Items):
    def throw(self, *given):
        raise StopIteration(9)


class FailsToClose(Items):
    def close(self):
        raise KeyError("close")


class OwnClose(Items):
    def __init__(self, log):
        super().__init__(log)
        self.close = lambda: log.append("own")


def in_chain(log):
    return itertools.chain(Closable(log))


def generator(log):
    try:
        yield 1
    finally:
        log.append("inner")
        raise KeyError("inner")


@pytest.mark.parametrize("kind", [Items, Closable, Stops, FailsToClose, OwnClose, in_chain, generator, iter])
@pytest.mark.parametrize("given", [None, (ValueError,), (ValueError("a"),), (ValueError, "b")], ids=repr)
def test_generator_that_delegates(kind, given):
    def f(x):
        log = []

        def outer(inner):
            try:
                log.append((yield from inner))
            except BaseException as error:
                log.append(repr(error))
                raise
            yield "more"

        running = outer([1, 2].__iter__() if kind is iter else kind(log))
        next(running)
        try:
            log.append(running.close() if given is None else running.throw(*given))
        except Exception as error:
            log.append(repr(error))
        return x + 1, log

    assert cdynamo.optimize(f)(np.ones(1)) == f(np.ones(1))


@pytest.mark.parametrize("kind", [Items, Closable, in_chain])
def test_generator_that_dies_closes_what_it_delegates_to(kind):
    def f(x):
        log = []

        def outer():
            yield from kind(log)

        running = outer()
        next(running)
        del running
        return x + 1, log

    assert cdynamo.optimize(f)(np.ones(1)) == f(np.ones(1))
