"""Exceptions inside captured code: raise, try, finally, with; and what is left to Python."""

import pytest
from saying import shout
from test_capture_control import agrees, capture, result_of

import cdynamo


class MyError(ValueError):
    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


class Manager:
    def __init__(self, log, swallow=False):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append("exit" if kind is None else kind.__name__)
        return self.swallow


def caught(x):
    try:
        if x > 1:
            raise ValueError("too big")
        return "fine"
    except (KeyError, ValueError) as error:
        return error.args


def from_callee(x):
    try:
        return fails(x)
    except MyError as error:
        return error.code, error.args, isinstance(error, ValueError)


def fails(x):
    raise MyError("bad", x)


def finally_runs():
    log = []
    try:
        try:
            raise KeyError("k")
        finally:
            log.append(1)
    except KeyError:
        log.append(2)
    else:
        log.append(3)
    return tuple(log)


def finally_overrides():
    try:
        return 1
    finally:
        x = 2
        return x  # noqa: B012


def reraised():
    try:
        try:
            raise ValueError(1)
        except ValueError:
            raise
    except ValueError as error:
        return error.args


def chained():
    try:
        try:
            raise ValueError(1)
        except ValueError as error:
            raise TypeError(2) from error
    except TypeError as error:
        return error.__cause__.args, error.__context__.args


def circles_of_contexts(length):
    """The program closes a circle of `length` exceptions in the chain; one more is raised while they are handled."""
    errors = [ValueError(i) for i in range(length)]
    for i in range(length):
        errors[i].__context__ = errors[(i + 1) % length]
    outside = KeyError("outside")
    outside.__context__ = errors[0]
    try:
        try:
            raise outside
        except KeyError:
            raise TypeError(length)
    except TypeError as error:
        chain = [error]
        for _ in range(2 * length + 2):
            chain.append(chain[-1].__context__)
        return tuple(link.args for link in chain)


def a_context_that_would_close_a_circle():
    try:
        try:
            raise ValueError(1)
        except ValueError as first:
            try:
                raise TypeError(2)
            except TypeError:
                raise first
    except ValueError as error:
        return error.args, error.__context__.args, error.__context__.__context__


def builtin_errors(d, values):
    log = []
    try:
        d["missing"]
    except KeyError:
        log.append("key")
    try:
        values[10]
    except IndexError:
        log.append("index")
    try:
        1 // 0
    except ZeroDivisionError:
        log.append("zero")
    try:
        None.attribute
    except AttributeError:
        log.append("attribute")
    try:
        int("x")
    except ValueError:
        log.append("value")
    return tuple(log)


def with_statement():
    log = []
    with Manager(log) as manager:
        log.append(manager.swallow)
    with Manager(log, swallow=True):
        raise ValueError
    try:
        with Manager(log), Manager(log):
            raise KeyError
    except KeyError:
        log.append("outside")
    return tuple(log)


def unbound(flag):
    if flag:
        value = 1
    try:
        return value
    except UnboundLocalError:
        return "unbound"


def in_loop(n):
    done = 0
    for i in range(n):
        try:
            if i % 2:
                raise ValueError
            done += 1
        except ValueError:
            continue
    return done


@pytest.mark.parametrize(
    "function, args",
    [
        (caught, (1,)),
        (caught, (2,)),
        (from_callee, (7,)),
        (finally_runs, ()),
        (finally_overrides, ()),
        (reraised, ()),
        (chained, ()),
        (circles_of_contexts, (1,)),
        (circles_of_contexts, (2,)),
        (circles_of_contexts, (3,)),
        (circles_of_contexts, (4,)),
        (a_context_that_would_close_a_circle, ()),
        (builtin_errors, ({}, [1])),
        (with_statement, ()),
        (unbound, (True,)),
        (unbound, (False,)),
        (in_loop, (5,)),
    ],
)
def test_whole_function(function, args):
    agrees(function, *args)


def test_an_uncaught_exception_is_raised_by_python():
    def f(x):
        y = x + 1
        raise ValueError(y)

    found = capture(f, 1)
    assert found["end"] == "break"
    assert found["break_at"].startswith("RAISE_VARARGS")
    assert found["breaks"][0]["id"] == "CD0101"
    assert "ValueError: 2" in found["breaks"][0]["what"]


def test_a_break_in_try_is_at_the_call():
    def f(x):
        try:
            y = x + 1
            shout(y)
        except ValueError:
            return 0
        return y

    found = capture(f, 1)
    assert found["end"] == "break"
    assert found["break_at"].startswith("CALL line 3")


def test_a_break_in_with_hands_the_exit_method_over():
    def f(manager):
        with manager:
            shout("x")
        return 1

    found = capture(f, Manager([]))
    assert found["end"] == "break"
    assert found["break_at"].startswith("CALL line 2")
    assert any("__exit__" in text for text in found["results"])


def test_a_break_in_a_handler_goes_back_to_what_raised():
    def f(values):
        values.append(1)
        try:
            raise ValueError(1)
        except ValueError:
            shout("handled")
        return 1

    found = capture(f, [])
    assert found["end"] == "break"
    assert found["break_at"].startswith("RAISE_VARARGS")


def test_exceptions_are_returned_as_objects():
    def f():
        try:
            raise MyError("m", 5)
        except MyError as error:
            kept = error.with_traceback(None)
        return kept

    found = capture(f)
    assert found["end"] == "return"
    assert "MyError" in found["results"][0]
    assert any(effect.endswith("'code' 5") for effect in found["effects"])


def test_an_exception_that_keeps_its_traceback_is_raised_by_python():
    def f(x):
        x = x + 1
        try:
            raise MyError("m", 5)
        except MyError as error:
            kept = error
        return kept, x

    found = capture(f, 1)
    assert (found["end"], found["breaks"][0]["id"]) == ("break", "CD0113")


def context_is_none():
    try:
        {}["k"]
    except KeyError as error:
        return error.__context__ is None


def raises_what_is_handled():
    raise  # noqa: PLE0704


@pytest.mark.parametrize("f", [context_is_none, raises_what_is_handled])
def test_what_a_caller_handles_breaks_the_graph(f):
    try:
        raise IndexError
    except IndexError:
        found = capture(f)
    assert found["end"] != "return"
    assert found["breaks"][0]["id"] == "CD0114"


def test_that_no_caller_handles_an_exception_is_guarded():
    compiled = cdynamo.optimize(context_is_none)
    for _ in range(2):
        assert compiled()
        try:
            raise IndexError
        except IndexError:
            assert not compiled()
    found = capture(context_is_none)
    assert (found["end"], found["breaks"]) == ("return", [])


def test_result_helper_refuses_breaks():
    with pytest.raises(AssertionError):
        result_of(lambda: shout())
