"""Inlined calls: argument binding, closures, methods, decorators, generators."""

import contextlib
import functools

import pytest
from test_capture_control import agrees, capture, result_of

GLOBAL = 10
COUNTER = 0


def with_defaults(a, b=2, *args, c=3, **kwargs):
    return (a, b, args, c, tuple(kwargs.items()))


def positional_only(a, /, b, *, c):
    return (a, b, c)


def calls_with_defaults():
    more = {"c": 7, "z": 8}
    return (
        with_defaults(1),
        with_defaults(1, 5, 6, 7, c=8, d=9),
        with_defaults(*(1, 2, 3), **more),
        positional_only(1, b=2, c=3),
    )


def make_adder(n):
    def add(x, step=1):
        return x + n * step

    return add


def closures():
    add = make_adder(5)
    total = 0

    def bump(by):
        nonlocal total
        total += by
        return total

    bump(2)
    return add(1), add(1, step=3), bump(4), total


def recursion(n):
    return 1 if n < 2 else n * recursion(n - 1)


def recursive_closure(n):
    def down(k):
        return 0 if k == 0 else k + down(k - 1)

    return down(n)


def lambdas():
    double = lambda x: 2 * x  # noqa: E731
    return double(4), (lambda *a: len(a))(1, 2, 3)


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return ("wrapped", function(*args, **kwargs))

    return wrapper


@logged
def decorated(a, b=1):
    return a + b


def call_decorated():
    return decorated(3, b=4)


def reads_global():
    return GLOBAL + 1


def count(n):
    for i in range(n):
        got = yield i
        if got:
            yield got * 100


def generator_for():
    return [x + 1 for x in count(4)]


def generator_send():
    gen = count(3)
    first = next(gen)
    second = gen.send(5)
    return first, second, list(gen)


def delegate(n):
    value = yield from inner_generator(n)
    yield value


def inner_generator(n):
    for i in range(n):
        yield i
    return "end"


def generator_from():
    return tuple(delegate(3))


def generator_expression(n):
    return sum(i * i for i in range(n) if i % 2), any(i > 2 for i in range(n))


def generator_cleanup():
    seen = []

    def gen():
        try:
            yield 1
            yield 2
        except ValueError:
            seen.append("caught")
            yield 3
        finally:
            seen.append("closed")

    g = gen()
    a = next(g)
    b = g.throw(ValueError("x"))
    g.close()
    return a, b, tuple(seen)


def generator_close_result():
    def gen(result):
        try:
            yield 1
        except GeneratorExit:
            return result

    def uncaught():
        yield 1
        return 2

    waiting, unstarted, ended, other = gen(5), gen(6), gen(7), uncaught()
    next(waiting), next(other)
    for _ in ended:
        pass
    return waiting.close(), waiting.close(), unstarted.close(), ended.close(), other.close()


class Point:
    scale = 2

    def __init__(self, x):
        self.x = x

    def scaled(self, by=1):
        return self.x * self.scale * by

    @classmethod
    def make(cls, x):
        return cls(x)

    @staticmethod
    def twice(x):
        return 2 * x

    @property
    def double(self):
        return self.twice(self.x)


class Point3(Point):
    def __init__(self, x, z):
        super().__init__(x)
        self.z = z

    def scaled(self, by=1):
        return super().scaled(by) + self.z


def methods():
    p = Point.make(3)
    bound = p.scaled
    q = Point3(1, 10)
    return p.scaled(), bound(by=2), p.double, Point.twice(4), q.scaled(), Point.scaled(p)


@contextlib.contextmanager
def managed(log):
    log.append("enter")
    try:
        yield 5
    finally:
        log.append("exit")


def context_managers():
    log = []
    with managed(log) as value:
        log.append(value)
    return tuple(log)


@pytest.mark.parametrize(
    "function, args",
    [
        (calls_with_defaults, ()),
        (closures, ()),
        (recursion, (6,)),
        (recursive_closure, (5,)),
        (lambdas, ()),
        (call_decorated, ()),
        (reads_global, ()),
        (generator_for, ()),
        (generator_send, ()),
        (generator_from, ()),
        (generator_expression, (6,)),
        (generator_cleanup, ()),
        (generator_close_result, ()),
        (methods, ()),
        (context_managers, ()),
    ],
)
def test_whole_function(function, args):
    if function is generator_for:
        assert result_of(function) == "#1=[1, 2, 3, 4]"
    elif function is generator_send:
        assert result_of(function) == "(0, 500, #1=[1, 2])"
    else:
        agrees(function, *args)


def test_errors_of_binding_that_nothing_catches_are_left_to_python():
    def f():
        return with_defaults()

    found = capture(f)
    assert found["end"] == "break"
    assert found["breaks"][0]["id"] == "CD0101"


def test_a_global_is_guarded_and_written_back():
    def f():
        global COUNTER
        COUNTER += 1
        return COUNTER

    found = capture(f)
    assert found["end"] == "return"
    assert any(guard.startswith("COUNTER: equals") for guard in found["guards"])
    assert found["effects"] == ["set global globals() 'COUNTER' 1"]


def test_builtins_are_guarded_against_globals_of_their_name():
    def f(x):
        return len(x)

    guards = capture(f, (1, 2))["guards"]
    assert any("key absent 'len'" in guard for guard in guards)


def test_closure_cells_are_written_back():
    total = 0

    def f(x):
        nonlocal total
        total += x
        return total

    found = capture(f, 3)
    assert found["end"] == "return"
    assert found["effects"] == ["set cell total 3"]
    assert any(guard.startswith("total: equals") for guard in found["guards"])


def test_a_function_argument_is_guarded_by_its_code():
    def f(g):
        return g(2)

    found = capture(f, lambda x: x + 1)
    assert found["results"] == ["3"]
    assert any(guard.startswith("g: function code") for guard in found["guards"])


def test_functions_are_returned_with_their_cells():
    def f(n):
        def g():
            return g, n

        return g

    found = capture(f, 4)
    assert found["end"] == "return"
    assert "cell(4)" in found["results"][0] and "cell(#1)" in found["results"][0]


def test_an_unstarted_generator_is_handed_over():
    def f(n):
        return count(n)

    found = capture(f, 4)
    assert found["end"] == "return"
    assert found["results"] == ["call(count, 4)"]


def starred(*values):
    yield from values


def test_an_unstarted_generator_is_called_as_it_was():
    def f(a):
        return starred(a, 2)

    assert capture(f, 1)["results"] == ["call(starred, 1, 2)"]


def test_a_suspended_generator_is_handed_over_before_it_starts():
    def f():
        gen = count(3)
        next(gen)
        return gen

    found = capture(f)
    assert found["end"] == "break"
    assert found["break_at"] == "CALL line 2"
    assert "call(count, 3)" in found["results"]


def test_imports_of_loaded_modules():
    def f():
        import os.path
        from contextlib import suppress

        return os.path.__name__, suppress.__name__

    assert result_of(f) == "('posixpath', 'suppress')"


def test_disabled_functions_break():
    def helper(x):
        return x

    helper._torchdynamo_disable = True

    def f(x):
        return helper(x)

    found = capture(f, 1)
    assert found["end"] == "break"
    assert found["breaks"][0]["id"] == "CD0003"


def test_deep_recursion_breaks():
    def f(n):
        return recursion(n)

    found = capture(f, 5000)
    assert found["end"] in ("break", "skip")
    assert found["breaks"][0]["id"] == "CD0007"
