"""A break in a function that is called, at any depth, leaves two graphs: what comes before it, of all frames, and what comes
after. Python runs the one instruction, in the frames that it would run it in."""

from __future__ import annotations

import functools
import gc
import sys
import types
import weakref

import pytest

import cdynamo

np = pytest.importorskip("numpy")

LOG: list = []


def leave(what=None):
    """What no graph takes in."""
    cdynamo.graph_break()
    LOG.append(what)
    return what


def inner(x):
    y = x * 2
    cdynamo.graph_break()
    return y + 1


def middle(x, k=3):
    a = x + k
    b = inner(a)
    return a * b


def three_deep(x):
    c = np.sin(x)
    d = middle(c, k=4)
    return d + c


def two_breaks(x):
    def twice(y):
        y = y + 1
        cdynamo.graph_break()
        y = y * 2
        cdynamo.graph_break()
        return y - 3

    z = x * x
    return twice(z) + z


def one_after_the_other(x):
    return inner(inner(x) + 1) + x


def the_caller_breaks_too(x):
    y = middle(x)
    cdynamo.graph_break()
    return y / 2


def with_keywords(x):
    def callee(a, *rest, scale, **others):
        a = a * scale
        cdynamo.graph_break()
        return a + sum(rest) + others["shift"]

    return callee(x, 1, 2, scale=3, shift=4) * 2


def with_star_arguments(x):
    arguments, keywords = (x, 2), {"k": 5}
    return (lambda *args, **kwargs: middle(args[0] * args[1], **kwargs))(*arguments, **keywords)


def over_cells(x):
    count, log = 0, []

    def bump(y):
        nonlocal count
        count += 1
        y = y + count
        cdynamo.graph_break()
        count += 10
        log.append(count)
        return y * count

    first = bump(x)
    return bump(first), count, log


class Manager:
    def __init__(self, seen):
        self.seen = seen

    def __enter__(self):
        self.seen.append("enter")
        return self

    def __exit__(self, *error):
        self.seen.append(error[0])
        return True


def in_with(x):
    seen = []
    with Manager(seen):
        y = inner(x)
        seen.append("between")
        y = y + 1
    return y, seen


def raised_behind_the_break(x):
    def raising(y):
        y = y + 1
        cdynamo.graph_break()
        y = y * 2
        raise KeyError("behind")

    try:
        x = raising(x)
    except KeyError as error:
        return x + 1, error.args
    return x


def raised_by_what_breaks(x):
    def raising(y):
        y = y + 1
        int("no number")
        return y

    try:
        x = raising(x)
    except ValueError as error:
        x = x * 3
        return x + 1, str(error)
    finally:
        x = None
    return x


def caught_inside(x):
    def catching(y):
        try:
            y = y + 1
            int("no number")
        except ValueError:
            y = y * 2
        return y - 1

    return catching(x) * 2


def in_a_loop(x):
    for i in range(4):
        x = middle(x, k=i) / 7
    return x


def around_a_loop(x):
    def loop(y):
        for i in range(3):
            y = y + i
            cdynamo.graph_break()
            y = y * 2
        return y

    return loop(x) - x


def by_decorator(x):
    def decorated(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            result = function(*args, **kwargs)
            return result * 2

        return wrapper

    return decorated(inner)(x) + 1


def by_partial(x):
    return functools.partial(middle, k=7)(x) + 1


def recursive(x, depth=4):
    if depth == 0:
        return x
    x = x + depth
    cdynamo.graph_break()
    return recursive(x, depth - 1) * 2


def the_called_function_tries_again(x):
    def wrapper(*args, **named):
        cdynamo.graph_break()
        try:
            return failing(*args, **named)
        finally:
            LOG.append("done")

    def failing(v, w=1):
        w = unknown_name  # noqa: F821
        return v

    try:
        return wrapper(x, w=2) + 1
    except NameError as error:
        return x * 2, str(error)


class Base:
    def method(self, x):
        x = x + self.shift
        cdynamo.graph_break()
        return x * self.shift


class Derived(Base):
    def __init__(self, shift):
        self.shift = shift

    def method(self, x):
        before = x * 2
        return super().method(before) + before

    def __call__(self, x):
        self.shift += 1
        return self.method(x) - 1


def methods_and_super(x):
    return Derived(3)(x) * 2


def changed_between(x):
    holder = types.SimpleNamespace(items=[1])

    def change(y):
        holder.items.append(2)
        cdynamo.graph_break()
        holder.items.append(len(holder.items))
        return y + len(holder.items)

    y = change(x)
    return y, holder.items


def a_generator_is_handed_in(x):
    def take(values, y):
        y = y + next(values)
        cdynamo.graph_break()
        return y * next(values)

    values = iter([2, 3, 4])
    y = take(values, x)
    return y + next(values)


def a_frame_is_looked_at(x):
    """It has the locals that it has in Python."""

    def callee(y):
        unused = y + 1  # noqa: F841
        cdynamo.graph_break()
        names = sorted(sys._getframe().f_locals)
        return y * 2, names

    y, names = callee(x)
    return y + 1, names


# Graphs with arithmetic in them.
PROGRAMS = {
    three_deep: 2,
    two_breaks: 3,
    one_after_the_other: 3,
    the_caller_breaks_too: 3,
    with_keywords: 2,
    with_star_arguments: 2,
    over_cells: 3,
    in_with: 2,
    raised_behind_the_break: 2,
    raised_by_what_breaks: None,
    caught_inside: None,
    in_a_loop: None,
    around_a_loop: None,
    by_decorator: 2,
    by_partial: 2,
    recursive: None,
    the_called_function_tries_again: None,
    methods_and_super: 2,
    changed_between: None,
    a_generator_is_handed_in: None,
    a_frame_is_looked_at: None,
}


def assert_same(got, expected):
    if isinstance(expected, np.ndarray):
        np.testing.assert_allclose(got, expected)
    elif isinstance(expected, (tuple, list)):
        assert type(got) is type(expected) and len(got) == len(expected)
        for one, other in zip(got, expected):
            assert_same(one, other)
    else:
        assert got == expected


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_results(program, counts):
    compiled = cdynamo.optimize(program)
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=5)
        assert_same(compiled(x), program(x))
        if seed == 0:
            first = counts.graphs_compiled
    assert counts.graphs_compiled == first
    if PROGRAMS[program] is not None:
        assert counts.graphs_compiled == PROGRAMS[program]


def test_a_loop_reuses_its_pieces(counts):
    compiled = cdynamo.optimize(in_a_loop)
    compiled(np.ones(3))
    assert counts.graphs_compiled <= 5
    assert counts.recompiles <= 1  # k is found to change


def test_a_place_is_reported_once():
    explanation = cdynamo.explain(three_deep)(np.ones(3))
    assert explanation.graph_break_count == 1
    assert explanation.graph_count == 2


def stack_names(limit=None):
    frame, names = sys._getframe(1), []
    while frame and frame.f_code.co_name != "stack_is_seen":
        names.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return names


def looks_at_the_stack(x):
    y = x + 1
    names = stack_names()
    return y * 2, names


def calls_what_looks(x):
    y, names = looks_at_the_stack(x * 2)
    return y + 1, names


def test_what_python_runs_sees_the_frames_that_it_would_see():
    def stack_is_seen(function):
        return function(np.ones(3))

    compiled = cdynamo.optimize(calls_what_looks)
    for _ in range(2):
        assert stack_is_seen(compiled)[1] == stack_is_seen(calls_what_looks)[1]


def fails_behind(x):
    y = x + 1
    cdynamo.graph_break()
    return y + np.ones(7)


def calls_what_fails(x):
    y = x * 2
    return fails_behind(y)


def test_a_traceback_shows_the_frames():
    import traceback

    def lines(function):
        with pytest.raises(ValueError) as raised:
            function(np.ones(3))
        frames = traceback.extract_tb(raised.value.__traceback__)
        return [(frame.name, frame.lineno) for frame in frames if frame.name != "lines"]

    compiled = cdynamo.optimize(calls_what_fails)
    for _ in range(2):
        assert lines(compiled) == lines(calls_what_fails)


def test_one_call_calls_several_functions(counts):
    def one(x):
        x = x + 1
        leave("one")
        return x * 2

    def other(x, k=2):
        y = x - k
        leave("other")
        return y * x

    def calls(function, x):
        return function(x * 3) + 1

    compiled = cdynamo.optimize(calls)
    x = np.arange(4.0)
    for function in (one, other, one, other):
        assert_same(compiled(function, x), calls(function, x))
    before = counts.graphs_compiled
    for function in (one, other):
        assert_same(compiled(function, x), calls(function, x))
    assert counts.graphs_compiled == before


def test_what_only_the_called_function_holds_dies_with_it():
    class Watched:
        pass

    def callee(x, log):
        watched = Watched()
        reference = weakref.ref(watched, lambda _: log.append("dead"))
        leave(watched)
        LOG.clear()
        y = x + 1
        del watched
        log.append("after")
        return y, reference

    def calls(x, log):
        y, reference = callee(x, log)
        log.append("called")
        return y * 2

    for function in (cdynamo.optimize(calls), calls):
        for _ in range(2):
            log = []
            function(np.ones(3), log)
            assert log == ["dead", "after", "called"]


def test_it_dies_where_the_frame_ends():
    class Watched:
        pass

    def callee(x, log):
        watched = Watched()
        weakref.finalize(watched, log.append, "dead")
        leave()
        return x + 1

    def calls(x, log):
        y = callee(x, log)
        log.append("called")
        return y * 2

    for function in (cdynamo.optimize(calls), calls):
        for _ in range(2):
            log = []
            function(np.ones(3), log)
            assert log == ["dead", "called"]


def test_nothing_is_kept():
    class Payload:
        pass

    def callee(x, payload):
        y = x + 1
        leave()
        return y

    def calls(x, payload):
        return callee(x, payload) * 2

    compiled = cdynamo.optimize(calls)
    for _ in range(3):
        payload = Payload()
        reference = weakref.ref(payload)
        compiled(np.ones(3), payload)
        del payload
        gc.collect()
        assert reference() is None


def test_a_function_of_another_module(counts):
    module = types.ModuleType("somewhere_else")
    exec(
        "import cdynamo\nscale = 3\n"
        "def callee(x):\n    y = x * scale\n    cdynamo.graph_break()\n    return y + scale\n",
        module.__dict__,
    )

    def calls(x):
        return module.callee(x + 1) * 2

    compiled = cdynamo.optimize(calls)
    x = np.arange(3.0)
    assert_same(compiled(x), calls(x))
    module.scale = 5
    assert_same(compiled(x), calls(x))


def test_a_long_recursion_is_compiled_once(counts):
    compiled = cdynamo.optimize(recursive)
    x = np.ones(3)
    assert_same(compiled(x, 30), recursive(x, 30))
    before = counts.graphs_compiled
    assert before < 12
    assert_same(compiled(x, 40), recursive(x, 40))
    assert counts.graphs_compiled <= before + 2
