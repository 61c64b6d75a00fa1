"""Programs full of graph breaks, run compiled and plain: what they return, print, raise and change must agree.

`say` is never captured, so each call of it is a graph break; what it was told is compared as well.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import functools

import pytest
from saying import LOG, Manager, say

torch = pytest.importorskip("torch")

import cdynamo  # noqa: E402

GLOBAL = 5


def fails(value):
    raise ValueError(str(float(value.sum())))


def break_in_for(x, n):
    y = torch.sin(x)
    for i in range(n):
        say("iteration", i)
        y = y + i
        if i == 2:
            break
    else:
        y = y * 10
    return torch.cos(y) * 2


def break_in_while(x, n):
    while x.sum() < n * 5:
        x = x + 1
        say("w")
    return x * 2


def break_in_nested_loops(x, n):
    total = 0
    for i in range(n):
        for j in range(i):
            say(i, j)
            total += i * j
        total += 1
    y = x * total
    say("end")
    return y + 1


def break_in_with(x, n):
    out = []
    with Manager():
        y = x + 1
        say("in")
        out.append(y)
        if n == 1:
            fails(y)
    return out, y * 2


def swallowed_exception(x, n):
    with Manager(swallow=True):
        y = x + 1
        raise RuntimeError("gone")
    return y * n


def break_in_try(x, n):
    try:
        y = x * 2
        say("try")
        if n == 1:
            raise KeyError("k")
        z = y + 1
    except KeyError as error:
        say("caught", error.args)
        z = y - 1
    finally:
        say("finally")
    return z * 3


def break_in_handler(x, n):
    try:
        say("a")
        raise ValueError("v")
    except ValueError:
        try:
            say("b")
            raise TypeError("t")
        except TypeError:
            y = x + 5
    return y * n


def exceptions_in_a_loop(x, n):
    results = []
    for i in range(n + 2):
        try:
            if i % 2:
                raise ValueError(i)
            results.append(x + i)
        except ValueError as error:
            say("odd", error.args[0])
    return results


def branch_on_a_tensor(x, n):
    if x.sum() > n * 5:
        y = x + 1
    else:
        y = x - 1
    say("joined")
    return y * y


def break_in_a_closure(x, n):
    def bump(k):
        nonlocal n
        n += k
        say("bump", n)
        return x + n

    a = bump(1)
    b = bump(2)
    return a, b, n


def break_after_mutation(x, values):
    values.append(x + 1)
    say(len(values))
    values.append(x + 2)
    return values


def aliases_across_a_break(x, n):
    first = [x]
    second = first
    second.append(n)
    both = [first, second]
    say("alias")
    both[0].append(0)
    return both, first is second


def a_dict_that_holds_itself(x, n):
    d = {"a": x, "b": [x]}
    values = d["b"]
    values.append(d)
    say(len(values))
    values[1]["c"] = n
    return d["c"], d["b"] is values, values[1] is d


def globals_across_a_break(x, n):
    global GLOBAL
    GLOBAL += n
    say("global", GLOBAL)
    GLOBAL += 1
    result = x + GLOBAL
    GLOBAL = 5
    return result


def iterators_across_a_break(x, n):
    items = enumerate(["p", "q"])
    pairs = zip([1, 2, 3], "abc")
    mapped = map(lambda v: v + n, [1, 2])
    numbers = iter([x, x + 1])
    first = (next(items), next(pairs), next(numbers))
    say("middle")
    return first, list(items), list(pairs), list(mapped), list(numbers)


def generator(x, n):
    try:
        for i in range(n):
            say("generator", i)
            yield x + i
    finally:
        say("closed")


def break_in_a_generator(x, n):
    return list(generator(x, n))


def generator_across_a_break(x, n):
    produced = (x * i for i in range(n + 1))
    first = next(produced)
    say("first")
    return [first, *produced]


def break_in_a_comprehension(x, n):
    return [say("item", i) or x * i for i in range(n)], {key: (say(key), x)[1] for key in "ab"}


@dataclasses.dataclass
class Counter:
    count: int
    seen: list = dataclasses.field(default_factory=list)

    def step(self, x):
        self.count += 1
        self.seen.append(self.count)
        say("step", self.count)
        return x * self.count


def objects_across_a_break(x, n):
    counter = Counter(0)
    for _ in range(n):
        x = counter.step(x)
    return x, counter


class Base:
    def __init__(self, x):
        self.x = x
        say("base")

    @property
    def twice(self):
        say("property")
        return self.x * 2

    def add(self, k):
        return self.x + k


class Derived(Base):
    def __init__(self, x, y):
        super().__init__(x)
        self.y = y

    def add(self, k):
        say("derived")
        return super().add(k) * self.y

    def __call__(self, z):
        return self.add(z) + self.twice


def methods_across_a_break(x, n):
    derived = Derived(x, n)
    return derived(1), derived.__class__.__name__


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        say(function.__name__)
        result = function(*args, **kwargs)
        say("done")
        return result

    return wrapper


@logged
def scaled(x, n=2, *, m=3):
    return x * n + m


def decorators_across_a_break(x, n):
    bound = functools.partial(scaled, m=7)
    say("partial")
    return scaled(x), scaled(x, n), scaled(x, m=n), bound(x)


def in_place_across_a_break(x, n):
    y = x.clone()
    view = y[1:]
    view.add_(n)
    say(tuple(y.shape))
    view.mul_(2)
    y[0] = 9
    return y, view


def containers_across_a_break(x, n):
    counts = collections.defaultdict(list)
    counts["k"].append(x)
    ordered = collections.OrderedDict(a=1)
    numbers = {1, 2}
    say(len(counts))
    counts["j"].append(n)
    ordered["z"] = n
    ordered.move_to_end("a")
    numbers.add(n)
    return dict(counts), ordered, sorted(numbers), frozenset(numbers), slice(1, n), range(n)


def context_managers_of_the_library(x, n):
    y = x + 1
    for k in range(2):
        with contextlib.suppress(ValueError):
            y = y * n
            if k:
                raise ValueError
    try:
        with contextlib.ExitStack() as stack:
            stack.callback(say, "callback")
            say("body")
            raise IndexError(n)
    except (IndexError, KeyError) as error:
        y = y * error.args[0]
    return y


PROGRAMS = [
    break_in_for,
    break_in_while,
    break_in_nested_loops,
    break_in_with,
    swallowed_exception,
    break_in_try,
    break_in_handler,
    exceptions_in_a_loop,
    branch_on_a_tensor,
    break_in_a_closure,
    aliases_across_a_break,
    a_dict_that_holds_itself,
    globals_across_a_break,
    iterators_across_a_break,
    break_in_a_generator,
    generator_across_a_break,
    break_in_a_comprehension,
    objects_across_a_break,
    methods_across_a_break,
    decorators_across_a_break,
    in_place_across_a_break,
    containers_across_a_break,
    context_managers_of_the_library,
]


def observe(function, arguments):
    LOG.clear()
    arguments = copy.deepcopy(arguments)
    try:
        outcome = ("returned", function(*arguments))
    except Exception as error:
        outcome = ("raised", type(error).__name__, str(error))
    return repr((outcome, arguments, GLOBAL)), list(LOG)


def agrees(function, *arguments):
    with torch.no_grad():
        expected = observe(function, arguments)
        compiled = cdynamo.optimize(function)
        for _ in range(3):
            assert observe(compiled, arguments) == expected


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_agrees(program, n):
    agrees(program, torch.arange(4.0), n)


@pytest.mark.parametrize("values", [[], [1]])
def test_arguments_are_changed_as_in_python(values):
    agrees(break_after_mutation, torch.arange(4.0), values)


def test_one_list_passed_twice():
    def f(x, a, b):
        a.append(x)
        return len(b)

    compiled = cdynamo.optimize(f)
    x = torch.ones(2)
    assert compiled(x, [], []) == 0
    once = []
    assert compiled(x, once, once) == 1


def test_code_after_a_loop_with_breaks_is_compiled(counts):
    compiled = cdynamo.optimize(break_in_for)
    with torch.no_grad():
        compiled(torch.ones(3), 2)
    assert counts.graphs_compiled == 3  # before it, a turn of it, after it
