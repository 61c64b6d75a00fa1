"""Where a function goes on after a graph break: which locals are bound there, what is on its stack, which line it is at."""

from __future__ import annotations

import gc
import re
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import cdynamo

LOG: list[str] = []


@cdynamo.disable
def say(*words):
    LOG.append(re.sub(" at 0x[0-9a-f]+", "", " ".join(map(str, words))))
    return words[-1] if words else None


class Ends:
    """Something whose end shows."""

    def __init__(self, name):
        self.name = name

    def __del__(self):
        LOG.append(f"end of {self.name}")


class Shown:
    def __repr__(self):
        say("repr")
        return "<shown>"

    def __format__(self, spec):
        say("format", spec)
        return f"[{spec}]"


@cdynamo.disable
def suspended():
    """A generator that has begun: its class has a finalizer."""

    def numbers():
        try:
            yield 1
            yield 2
        finally:
            LOG.append("closed")

    generator = numbers()
    next(generator)
    return generator


# ---- locals that a break unbinds or binds


def del_of_what_has_a_finalizer(x):
    first, second = Ends("first"), Ends("second")
    x = x * 2
    del first
    say("between")
    del second, x
    try:
        return x  # noqa: F821
    except UnboundLocalError as error:
        return str(error)


def del_of_a_generator(x):
    generator = suspended()
    x = x * 2
    del generator
    say("after")
    return x + 1


def del_of_two_generators(x):
    a, b = suspended(), suspended()
    x = x * 2
    say("both")
    del a, b
    return x + 1


def a_local_is_overwritten(x):
    value = Ends("old")
    x = x * 2
    value = x + 1
    say("after")
    return value * 2


def a_dead_local_is_overwritten(x):
    value = suspended()
    say("made")
    x = x * 2
    value = x + 1
    return value * 2


def overwritten_in_a_loop(x):
    for i in range(3):
        value = Ends(i)
        x = x + i
        say("turn", i)
    value = None
    return x * 2, value


def a_generator_is_returned_by_a_call(x):
    x = x * 2
    generator = suspended()
    alias = generator
    del generator
    say("alias")
    return x + next(alias)


def del_of_a_cell(x):
    value = Ends("cell")

    def read():
        return value.name  # noqa: F821

    x = x * 2
    name = read()
    del value
    say("after")
    try:
        read()
    except NameError as error:
        return x, name, str(error)


# ---- what is on the stack


def a_large_range_on_the_stack(x):
    x = x * 2
    n = len(say(range(10**20, 10**20 + 10, 3)))
    return x + n


def a_generator_on_the_stack(x):
    x = x * 2
    return [x, *say(suspended())]


def a_type_on_the_stack(x):
    x = x * 2
    values = say(Ends)("made").name, say(Shown), x
    return values[0], x


def many_things_on_the_stack(x):
    return (x + 1, [x * 2, {"a": x, "b": (say("in a dict"), x - say(1))}], f"{say('in a string')}{x.shape}")


# ---- formatting, which is one instruction or two


def repr_in_a_format(x):
    x = x * 2
    text = f"{Shown()!r}"
    return text, x + 1


def repr_and_spec_in_a_format(x):
    x = x * 2
    text = f"{Shown()!r:>12}|{Shown()!s:<9}|{Shown():{say('.^')}}"
    return text, x + 1


def nested_formats(x):
    x = x * 2
    text = f"{f'{Shown()!r}'} {say(Shown())!a} {say('s')}"
    return text, x + 1


def percent_format(x):
    x = x * 2
    text = "%r has %s and %r" % (Shown(), say("s"), "quotes")
    return text, x + 1


# ---- conditions that leave a value on the stack


def and_or(x):
    y = say(0) or x * 2
    z = say(x) is not None and y
    return z + (say(None) or 1)


def chained_comparison(x):
    x = x * 2
    if 0 < say(3) < say(5):
        x = x + 1
    if 0 < say(7) < say(5) < say(9):
        x = x - 1
    return x


def conditional_arguments(x):
    return max(say(1), 2 if say(True) else 3, *[say(4)]) * x + (x if say(False) else x * 2)


# ---- what super() gives, before it is called


class Items(list):
    def append(self, item):
        inherited = super().append
        say("append", item)
        inherited(item)

    def __getitem__(self, i):
        return super().__getitem__(say(i))

    def __delattr__(self, name):
        super().__delattr__(say(name))

    def __len__(self):
        return super().__len__() + say(10)


def super_without_a_first_argument(x):
    def nothing():
        say("nothing")
        super()

    def deleted(x):
        x = x * 2
        del x
        say("deleted")
        super()

    errors = []
    for f, args in ((nothing, ()), (deleted, (x,))):
        try:
            f(*args)
        except RuntimeError as error:
            errors.append(str(error))
    return errors


def a_bound_method_stays_bound(x):
    items, others = Items([x * 2]), Items([x * 3])
    method = items.pop.__get__(others, Items) if say(False) else items.__getitem__.__get__(others, Items)
    return method(0)


def methods_of_super(x):
    items = Items([1])
    x = x * 2
    items.append(x)
    items.name = "n"
    del items.name
    try:
        del items.name
    except AttributeError as error:
        say(error)
    try:
        items[5]
    except IndexError as error:
        say(error)
    return items[1], len(items), hasattr(items, "name")


# ---- methods of exceptions that live outside


FAILURE = ValueError("outside", 42)


def methods_of_an_exception(x):
    x = x * 2
    try:
        FAILURE.__setstate__(42)
    except TypeError as error:
        say(error)
    return x + FAILURE.args[1], FAILURE.with_traceback(None) is FAILURE, FAILURE.__reduce__()[1]


PROGRAMS = [
    program
    for program in list(globals().values())
    if getattr(program, "__code__", None) and program.__code__.co_varnames[: program.__code__.co_argcount] == ("x",)
]


def observe(function):
    LOG.clear()
    try:
        outcome = ("returned", function(np.arange(3.0)))
    except Exception as error:
        outcome = ("raised", type(error).__name__, str(error))
    gc.collect()
    return repr(outcome), list(LOG)


@pytest.mark.parametrize("keep_empty", [False, True], ids=["as it is", "empty graphs kept"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_agrees(program, keep_empty):
    cdynamo.config.suppress_errors = False
    cdynamo.config.keep_empty_graphs = keep_empty
    expected = observe(program)
    compiled = cdynamo.optimize(program)
    for _ in range(3):
        assert observe(compiled) == expected


def test_a_frame_is_on_a_line_from_its_start():
    """What looks at frames (a profiler, a finalizer) may do so in a prologue."""
    lines = []

    def profile(frame, event, argument):
        if frame.f_code.co_name == "many_things_on_the_stack":
            lines.append(frame.f_lineno)

    compiled = cdynamo.optimize(many_things_on_the_stack)
    compiled(np.arange(3.0))
    sys.setprofile(profile)
    try:
        compiled(np.arange(3.0))
    finally:
        sys.setprofile(None)
    assert None not in lines


def test_python_may_recurse_as_deep_below_a_graph_break_as_elsewhere():
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    def run(n):
        cdynamo.graph_break()
        total = 0
        try:
            total = down(n)
        except RecursionError:
            return "too deep"
        return total

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        for depth in (90_000, 101_000):  # less deep where torch.compile has left its own hook (3.12)
            assert cdynamo.optimize(run)(depth) == run(depth)
        assert cdynamo.optimize(run)(3) == 3  # the hook is back
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("calls_before", [0, 1, 2])
def test_no_code_of_a_frame_that_is_one_too_many_runs(calls_before):
    class Item:
        pass

    def run():
        seen, entered = None, 0

        def inner():
            nonlocal seen, entered
            entered += 1
            item = Item()
            seen = weakref.ref(item)
            inner()

        try:
            inner()
        except RecursionError as error:
            depth, entry = 0, error.__traceback__
            while entry := entry.tb_next:
                depth += 1
            return depth, entered, seen() is not None

    def call(function, times):
        return call(function, times - 1) if times else function()

    compiled, want = cdynamo.optimize(run), call(run, calls_before)
    cdynamo.config.keep_empty_graphs = True
    try:
        for _ in range(2):
            assert call(compiled, calls_before) == want
    finally:
        cdynamo.config.keep_empty_graphs = False
    assert want[2]


def test_a_recursion_s_lines_are_said_three_times():
    def down(x, n):
        if n == 0:
            cdynamo.graph_break()
            return x
        return down(x * 2, n - 1)

    report = cdynamo.explain(lambda x: down(x, 9) + 1)(np.arange(3.0)).breaks[0].report
    assert report.count("return down(x * 2, n - 1)") == 3
    assert "  [the same 6 times more]\n" in report
    assert len(cdynamo.explain(lambda x: down(x, 9) + 1)(np.arange(3.0)).breaks[0].stack) == 11


@pytest.mark.parametrize("kilobytes", [64, 128, 256, 1024])
def test_threads_with_small_stacks(kilobytes):
    """Where there is no room for a compile, Python runs the function."""
    results = []
    before = threading.stack_size(kilobytes * 1024)
    try:
        compiled = cdynamo.optimize(lambda x: np.sin(x) * 2 + x.sum())
        thread = threading.Thread(target=lambda: results.append(compiled(np.arange(3.0))))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    np.testing.assert_allclose(results[0], np.sin(np.arange(3.0)) * 2 + 3)


def test_an_argument_deep_inside_of_lists():
    """Compiling takes time in proportion to the depth; what guards say of it names the root and the last steps."""

    def innermost(x):
        for _ in range(2000):
            x = x[0]
        return x + 1

    nested = np.ones(2)
    for _ in range(2000):
        nested = [nested]
    begun = time.monotonic()
    np.testing.assert_array_equal(cdynamo.optimize(innermost)(nested), np.full(2, 2.0))
    assert time.monotonic() - begun < 20


def test_eval_sees_what_cells_hold():
    """At the broken instruction itself, too: `frame.f_locals` has no cells in it."""

    def program(x, n):
        x = x + 1
        m = eval("n")

        def inner():
            return n

        m += n
        return x * m + inner()

    np.testing.assert_array_equal(cdynamo.optimize(program)(np.ones(2), 3), program(np.ones(2), 3))


def test_a_free_variable_and_a_comprehension_s_of_the_same_name():
    """3.12 and later compile the comprehension in its function, which has two slots of the name then."""

    def make(v, log):
        def f(x, d):
            log.append(v)
            made = {k: v for k, v in d.items()}
            cdynamo.graph_break()
            log.append(v)
            return x + 1, made, v

        def raises(d):
            log.append(v)
            return {k: v for k, v in d.items()}.get(3, v[0])

        def loops(d):
            found = []
            for k in d:
                cdynamo.graph_break()
                found.append([v for v in (k, 7)] + [v])
            return found

        return f, raises, loops

    cdynamo.config.suppress_errors = False
    plain_log, log = [], []
    f, raises, loops = make(5, plain_log)
    g, raising, looping = (cdynamo.optimize(each) for each in make(5, log))
    d = {1: 2, 3: 4}
    for _ in range(2):
        assert g(1, d) == f(1, d)
        assert looping(d) == loops(d)
        for each in (raises, raising):
            with pytest.raises(TypeError, match="not subscriptable"):
                each(d)
    assert log == plain_log
