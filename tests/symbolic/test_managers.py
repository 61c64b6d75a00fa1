"""What `with` calls, and with what: protocols, tracebacks, PyTorch's own managers."""

import contextlib
import types

import pytest

import cdynamo

torch = pytest.importorskip("torch")


def agree(function, *arguments):
    expected = function(*arguments)
    for backend in ("native", "eager"):
        fast = cdynamo.optimize(function, backend=backend)
        for _ in range(2):
            assert fast(*arguments) == expected


class Enters:
    def __enter__(self):
        return self


class Both(Enters):
    def __exit__(self, *exception):
        return True


@pytest.mark.parametrize("manager", [5, None, "text", [1], Both, Enters(), torch, len, torch.ones(1), object()])
def test_what_is_no_manager(manager):
    def function(manager):
        try:
            with manager:
                pass
        except (TypeError, AttributeError) as error:
            return type(error).__name__, str(error)

    agree(function, manager)


class Keeps:
    def __init__(self, swallows):
        self.swallows = swallows

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.seen = kind, str(value), traceback is None, bool(traceback), isinstance(traceback, types.TracebackType)
        return self.swallows


class Looks(Keeps):
    def __exit__(self, kind, value, traceback):
        self.seen = traceback and traceback.tb_frame.f_code.co_name
        return True


@pytest.mark.parametrize("kind", [Keeps, Looks])
def test_an_exception_has_a_traceback(kind):
    def function(raises):
        manager, stacked = kind(True), kind(True)
        with manager:
            if raises:
                raise ValueError("a")
        with contextlib.ExitStack() as stack:
            stack.enter_context(stacked)
            if raises:
                raise ValueError("b")
        return manager.seen, stacked.seen

    agree(function, True)
    agree(function, False)


def test_exceptions_go_through_managers_that_are_generators():
    @contextlib.contextmanager
    def manager(log):
        try:
            yield
        except ValueError as error:
            log.append(str(error))
            raise
        finally:
            log.append("done")

    def function():
        log = []
        try:
            with manager(log), contextlib.suppress(KeyError):
                raise ValueError("a")
        except ValueError as error:
            log.append(error.args)
        with contextlib.suppress(ValueError), manager(log):
            raise ValueError("b")
        return log

    agree(function)


def test_ranges_of_the_profiler():
    def function(x):
        with torch.profiler.record_function("the range of the program"):
            return x.sin() * 2

    fast = cdynamo.optimize(function)
    x = torch.ones(2)
    for _ in range(2):
        torch.testing.assert_close(fast(x), function(x))
        with torch.profiler.profile() as profile:
            torch.testing.assert_close(fast(x), function(x))
        assert [e.count for e in profile.key_averages() if e.key == "the range of the program"] == [2]


def test_subclasses_are_plain_where_their_functions_are_disabled():
    class Sub(torch.Tensor):
        pass

    def function(x):
        with torch._C.DisableTorchFunctionSubclass():
            return torch._C._is_torch_function_enabled(), type(x + 1).__name__

    agree(function, torch.ones(2))
    agree(function, torch.ones(2).as_subclass(Sub))


class Like:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return 123


@pytest.mark.parametrize("thing", [Like(), 5, torch.ones(1), torch.nn.Parameter(torch.ones(1)), object(), Like])
def test_what_is_like_a_tensor(thing):
    agree(torch.overrides.is_tensor_like, thing)
    agree(lambda thing: torch.overrides.is_tensor_like(thing), thing)


def test_lists_that_are_written_to_in_place():
    def function(a, b):
        return [
            torch._foreach_mul_(a, b) is a, torch._foreach_add_(a, 1) is a, torch._foreach_copy_(a, b) is a,
            torch._foreach_zero_(a) is a,
        ]  # fmt: skip

    agree(function, [torch.ones(1)], [torch.ones(1)])
