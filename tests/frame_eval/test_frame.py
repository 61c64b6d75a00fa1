"""Frames: the hook, running a function in place of a frame, and versions of dicts, without capture."""

import gc
import sys
import threading
import traceback
import weakref

import pytest

from cdynamo import _C

run = _C._run_in_place


def seen_arguments(result):
    return [row[2] for row in result[1]]


def test_arguments_are_bound_before_the_replacement_runs():
    def f(a, b=2, /, c=3, *rest, d=4, **more):
        raise AssertionError("not to be run")

    def replacement(a, b, c, d, rest, more):
        return [a, b, c, d, rest, more]

    result = run(f, replacement, 1, 5, 6, 7, 8, d=9, e=10)
    assert result[0] == [1, 5, 6, 9, (7, 8), {"e": 10}]
    assert seen_arguments(result) == [(1, 5, 6, 9, (7, 8), {"e": 10})]
    assert result[1][0][0] is f and result[1][0][1] is True
    assert run(f, replacement, 1)[0] == [1, 2, 3, 4, (), {}]


def test_code_runs_with_the_closure_and_globals_of_the_function():
    n = 1

    def f(x):
        nonlocal n
        n += x
        return n, inner.__name__

    def inner():
        pass

    code = _C._reencode(f.__code__, 2)
    assert run(f, code, 10)[0] == (11, "inner")
    assert run(f, code, 5)[0] == (16, "inner")
    assert n == 16
    with pytest.raises(SystemError, match="free variables"):
        run(f, (lambda x: x).__code__, 1)


def test_arguments_that_are_cells():
    def f(x, y):
        def g():
            return x + y

        return g

    assert run(f, f.__code__.replace(), 1, 2)[0]() == 3
    assert run(f, _C._reencode(f.__code__, 1), 1, 2)[0]() == 3


def test_default_evaluation_of_what_is_not_replaced():
    def f(n):
        return n if n < 2 else f(n - 1) + f(n - 2)

    result = run(f, None, 10)
    assert result[0] == 55
    assert len(result[1]) == 177


def test_recursion_through_replaced_frames():
    def f(n):
        return 0 if n == 0 else 1 + f(n - 1)

    def replacement(n):
        return 0 if n == 0 else 1 + f(n - 1)

    assert run(f, replacement, 100)[0] == 100


def test_recursion_limit():
    def f(n):
        return f(n + 1)

    def replacement(n):
        return f(n + 1)

    for _ in range(3):
        with pytest.raises(RecursionError):
            run(f, replacement, 0)
    assert run(f, lambda n: n, 7)[0] == 7


def test_deep_data_stack():
    # Frames of many locals, so that chunks of the data stack are entered and left on both sides of a replaced frame.
    names = [f"v{i}" for i in range(300)]
    source = "def make(f):\n    def g(n):\n        " + " = ".join(names)
    source += " = n\n        return n if n == 0 else v299 - v0 + 1 + f(n - 1)\n    return g\n"
    namespace = {}
    exec(source, namespace)

    def f(n):
        raise AssertionError

    g = namespace["make"](lambda n: f(n))
    for depth in (1, 5, 17, 40, 80, 150):
        assert run(f, g, depth)[0] == depth


def test_errors_come_through_with_a_traceback_of_the_replacement():
    def f(x):
        return None

    def replacement(x):
        raise ValueError(x)

    with pytest.raises(ValueError, match="text") as info:
        run(f, replacement, "text")
    names = [frame.name for frame in traceback.extract_tb(info.tb)]
    assert names[-1] == "replacement" and "f" not in names


def test_wrong_number_of_parameters():
    def f(a, b):
        return a

    with pytest.raises(TypeError, match="positional argument"):
        run(f, lambda a: a, 1, 2)
    assert run(f, lambda a, b: b, 1, 2)[0] == 2


def test_frame_of_the_caller_is_seen_by_the_replacement():
    def f():
        return None

    def replacement():
        return sys._getframe().f_back.f_code.co_name, sys._getframe().f_code.co_name

    def run_caller():
        return run(f, replacement)

    assert run_caller()[0] == ("run_caller", "replacement")


def count_references(objects):
    gc.collect()
    return [sys.getrefcount(o) for o in objects]


@pytest.mark.parametrize("fails", [False, True])
def test_no_reference_is_kept_or_lost(fails):
    class Thing:
        pass

    thing = Thing()

    def f(x, *rest, **more):
        return x

    def replacement(x, rest, more):
        if fails:
            raise KeyError
        return x

    watched = [thing, f, f.__code__, replacement, replacement.__code__]

    def once():
        try:
            run(f, replacement, thing, thing, k=thing)
        except KeyError:
            pass

    once()
    before = count_references(watched)
    for _ in range(50):
        once()
    assert count_references(watched) == before
    ref = weakref.ref(thing)
    watched = thing = None
    gc.collect()
    assert ref() is None


def test_finalizers_may_run_python_while_the_frame_is_cleared():
    log = []

    class Loud:
        def __del__(self):
            log.append(sys._getframe().f_back is not None)
            log.append([i for i in range(3)])

    def f(x):
        return 1

    assert run(f, lambda x: 2, Loud())[0] == 2
    gc.collect()
    assert log == [True, [0, 1, 2]]


def test_generators_and_coroutines():
    def f(n):
        yield from range(n)

    result = run(f, None, 3)
    assert list(result[0]) == [0, 1, 2]
    assert result[1][0][3] is True

    def g(n):
        return [n]

    assert run(g, f, 2)[1][0][3] is False
    assert list(run(g, f, 2)[0]) == [0, 1]

    def running(n):
        gen = f(n)
        first = next(gen)
        try:
            gen.throw(KeyError("k"))
        except KeyError:
            return first, "thrown"

    assert run(running, running, 2)[0] == (0, "thrown")


def test_hook_is_off_afterwards_and_nests():
    def f():
        return 1

    def inner():
        return run(f, lambda: 3)[0], f()

    assert run(f, lambda: 2)[0] == 2
    assert f() == 1
    assert run(inner, inner)[0] == (3, 1)
    with pytest.raises(ZeroDivisionError):
        run(f, lambda: 1 / 0)
    assert f() == 1


def test_threads():
    def f(x):
        return x

    def replacement(x):
        total = 0
        for i in range(200):
            total += i
        return x + 1

    results = []

    def work():
        for i in range(200):
            results.append(run(f, replacement, i)[0] == i + 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 800 and all(results)


def test_tracing_is_seen():
    seen = []

    def tracer(frame, event, arg):
        return tracer

    def f():
        return "original"

    assert _C._is_tracing() is False
    old = sys.gettrace()
    sys.settrace(tracer)
    try:
        seen.append(_C._is_tracing())
        seen.append(run(f, lambda: "replacement")[0])
    finally:
        sys.settrace(old)
    assert seen == [True, "original"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_monitoring_is_seen():
    tool = 4
    sys.monitoring.use_tool_id(tool, "test")
    try:
        sys.monitoring.set_events(tool, sys.monitoring.events.PY_START)
        assert _C._is_tracing() is False
        sys.monitoring.set_events(tool, sys.monitoring.events.LINE)
        assert _C._is_tracing() is True
    finally:
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)
    assert _C._is_tracing() is False


CHANGES = {
    "add": lambda d: d.update(new=1),
    "replace": lambda d: d.__setitem__("a", object()),
    "delete": lambda d: d.pop("a"),
    "clear": lambda d: d.clear(),
    "setdefault": lambda d: d.setdefault("c", 1),
    "popitem": lambda d: d.popitem(),
    "merge": lambda d: d.__ior__({"a": 5}),
}


@pytest.mark.parametrize("how", CHANGES)
def test_the_version_of_a_dict(how):
    first, second = {"a": 1, "b": 2}, {"a": 1, "b": 2}
    versions = _C._dict_version(first), _C._dict_version(second)
    assert versions[0] != versions[1]
    assert first["a"] == 1 and list(second) == ["a", "b"] and first == second and dict(first)
    assert _C._dict_version(second) == versions[1]
    CHANGES[how](second)
    assert _C._dict_version(first) == versions[0]
    assert _C._dict_version(second) != versions[1]


@pytest.mark.skipif(sys.version_info < (3, 13), reason="3.13 stores an object's attributes in the object itself")
def test_a_dict_whose_attributes_are_in_the_object_has_no_version():
    class Thing:
        pass

    thing = Thing()
    thing.x = 1
    assert _C._dict_version(thing.__dict__) == 0
    thing.__dict__[0] = 1  # stored apart from now on
    assert _C._dict_version(thing.__dict__) != 0
