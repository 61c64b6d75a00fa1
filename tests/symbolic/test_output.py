"""print, logging, warnings and texts of numbers: written when the graph has run, in order, and nothing twice."""

from __future__ import annotations

import contextlib
import functools
import gc
import heapq
import io
import logging
import operator
import random
import sys
import types
import warnings

import numpy as np
import pytest

import cdynamo

torch = pytest.importorskip("torch")
pytest.importorskip("sympy.utilities.exceptions")  # adds a filter of warnings; backends in Python import it

LOGGER = logging.getLogger("test_output")
LOGGER.setLevel(logging.INFO)
LOGGER.propagate = False


def said_by(run, *args):
    """What a call gives or raises, what it wrote to both streams, and the warnings that it showed, with their places."""
    out, err = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(out)
    LOGGER.addHandler(handler)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings._showwarnmsg_impl = written
            try:
                result = run(*args)
            except Exception as error:
                result = type(error).__name__, str(error)
            filters = list(warnings.filters)
    finally:
        LOGGER.removeHandler(handler)
    return result, out.getvalue(), err.getvalue(), filters


# What writes warnings: pytest, which records them, has something else in its place.
written = next(
    value
    for value in gc.get_objects()
    if isinstance(value, types.FunctionType) and value.__qualname__ == "_showwarnmsg_impl"
)


def same(got, expected):
    if isinstance(expected, (torch.Tensor, np.ndarray)):
        return type(got) is type(expected) and got.dtype == expected.dtype and np.allclose(got, expected)
    if isinstance(expected, (tuple, list)):
        return type(got) is type(expected) and len(got) == len(expected) and all(map(same, got, expected))
    return got == expected


def check(program, *calls, fullgraph=True):
    for args in calls:
        compiled = cdynamo.optimize(program, fullgraph=fullgraph)
        for _ in range(3):
            expected = said_by(program, *args)
            assert same(said_by(compiled, *args), expected)
    return expected


X = torch.tensor([[-1.0, -0.5, 0.0], [0.5, 1.0, 2.0]])


def constants(x):
    y = x * 2
    print("hello", 3, None, [1, "a"], {"k": (1,)}, sep="-", end="!\n")
    print()
    print("flushed", flush=True)
    print("to stderr", file=sys.stderr)
    sys.stdout.write("written\n")
    sys.stderr.flush()
    return y + 1


def in_a_loop(x):
    for i in range(3):
        x = x + i
        print("step", i)
        LOGGER.info("logged %d", i)
    return x


def numbers(x):
    loss = x.pow(2).sum().item()
    count = int((x > 0).sum())
    print("loss", loss, count, [loss, count], (loss,), {"loss": loss})
    print(f"loss {loss:.3f} of {count:>4} {loss!r} {loss} {count + 1}" + f"/{count}")
    print(
        "%.2f and %d" % (loss, count), "%s" % loss, "{:.1f} {}".format(loss, count), ", ".join([str(loss), repr(count)])
    )
    LOGGER.info("loss %.3f after %d", loss, count)
    LOGGER.info(f"loss {loss:.2f}")
    return x * loss, f"{loss:.3f}"


def tensors(x):
    y = x * 2
    print("y is", y, [y.sum(), 3])
    y += 1
    print(y)
    y[0] = 0
    return y


def arrays(a):
    b = a * 2
    print("b is", b, b.sum(), b.dtype)
    b += 1
    return b


def shapes(x, step):
    print(f"step {step} of {x.shape}", x.dtype, x.shape[0], step)
    return x + step


@pytest.mark.parametrize("program", [constants, in_a_loop, tensors], ids=lambda program: program.__name__)
def test_print(program):
    assert check(program, (X,))[1]


@pytest.mark.native  # numbers of tensors break the graphs of backends in Python
def test_print_of_numbers():
    assert "loss 16.500 of    5" in check(numbers, (X,), (X + 1,))[1]


def test_print_of_arrays():
    check(arrays, (np.linspace(0, 1, 4),))


def test_counters_in_texts_compile_once(counts):
    compiled = cdynamo.optimize(shapes, fullgraph=True)
    for step in range(8):
        assert said_by(compiled, X, step)[1] == said_by(shapes, X, step)[1]
    assert counts.recompiles <= 1


def test_a_text_that_is_looked_at_is_that_of_the_call():
    def program(x, step):
        name = f"layer{step}"
        found = {"layer1": 2, "layer2": 3}.get(name, 0)
        return x * found, name.upper(), name == "layer2", len(name), name[0], name in {"layer3"}, name.endswith("4")

    compiled = cdynamo.optimize(program, fullgraph=True)
    for step in (1, 2, 3, 2, 14):
        assert same(compiled(X, step), program(X, step))


def test_errors_of_formats_are_raised_where_they_stand():
    def program(x):
        try:
            return f"{x.sum().item():zz}", x + 1
        except ValueError as error:
            return str(error), x + 2

    check(program, (X,), fullgraph=False)


def test_what_raises_has_printed_what_came_before():
    def program(x, y):
        print("before")
        x = x + 1
        print("between", x.shape)
        z = x @ y
        print("never")
        return z

    check(program, (X, X), fullgraph=False)

    def index(x, i):
        print("before")
        y = x[i]
        print("after")
        return y

    check(index, (X, torch.tensor([0, 7])), (X, torch.tensor([1])), fullgraph=False)


def test_a_closed_stream_raises_where_it_is_written_to(counts):
    def program(x):
        try:
            print("text")
        except ValueError as error:
            return str(error), x
        return "printed", x + 1

    compiled = cdynamo.optimize(program)
    closed = io.StringIO()
    closed.close()
    for stream in (io.StringIO(), io.StringIO(), closed, io.StringIO()):
        with contextlib.redirect_stdout(stream):
            got = compiled(X)
        assert same(got, ("I/O operation on closed file", X) if stream is closed else ("printed", X + 1))
        assert stream is closed or stream.getvalue() == "text\n"


class Tee:
    def __init__(self):
        self.lines = []

    def write(self, text):
        self.lines.append(text)
        return len(text)

    def flush(self):
        pass


def test_a_stream_of_the_program_s_writes_at_once():
    tee = Tee()

    def program(x):
        print("one")
        return x + 1, len(tee.lines)

    compiled = cdynamo.optimize(program)
    for run in (program, compiled, compiled):
        tee.lines.clear()
        with contextlib.redirect_stdout(tee):
            assert same(run(X), (X + 1, 2))
        assert tee.lines == ["one", "\n"]


def test_text_a_stream_cannot_encode():
    def program(x):
        try:
            print("caf\u00e9")
        except UnicodeEncodeError as error:
            return str(error), x
        return "fine", x

    for encoding in ("ascii", "utf-8"):
        for run in (program, cdynamo.optimize(program)):
            buffer = io.BytesIO()
            stream = io.TextIOWrapper(buffer, encoding=encoding)
            with contextlib.redirect_stdout(stream):
                message, _ = run(X)
            stream.flush()
            assert (message == "fine") == (encoding == "utf-8")
            assert buffer.getvalue() == ("caf\u00e9\n".encode() if encoding == "utf-8" else b"")


def test_print_in_a_checkpoint_is_said_again_by_the_backward():
    from torch.utils.checkpoint import checkpoint

    def program(x):
        def inner(x):
            print("inside")
            return x.sin()

        y = checkpoint(inner, x, use_reentrant=False)
        y.sum().backward()
        return x.grad.clone()

    for run in (program, cdynamo.optimize(program)):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            run(X.clone().requires_grad_())
        assert out.getvalue() == "inside\ninside\n"


# ---- warnings


def warns(x):
    warnings.warn("careful")
    warnings.warn("old", DeprecationWarning)
    y = x + 1
    warnings.warn("careful", UserWarning, 1)
    return y


def ignores(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("careful")
        y = x + 1
    return y


def always(x):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for _ in range(2):
            warnings.warn("careful")
    with warnings.catch_warnings(action="always"):
        warnings.warn("again", RuntimeWarning)
    return x + 1


def records(x):
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        warnings.warn("careful", UserWarning)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    return x + 1, len(log), str(log[0].message), log[1].category, log[0].lineno, log[0].filename


def raises(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("boo", RuntimeWarning)
        except RuntimeWarning as error:
            return x + 1, str(error)


def filters(x):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=RuntimeWarning)
        warnings.filterwarnings("ignore", message="b.*", category=UserWarning)
        warnings.filterwarnings("always", module="test_.*")
        warnings.filterwarnings("ignore", module="no such", append=True)
        warnings.warn("boo")
        warnings.warn("see")
        try:
            warnings.warn("boo", RuntimeWarning)
        except RuntimeWarning:
            x = x + 1
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        warnings.warn("boo", RuntimeWarning)
    return x * 2


def helper(level):
    warnings.warn("from the helper", stacklevel=level)


def levels(x):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        helper(1)
        helper(2)
    return x * 2


def stays(x):
    warnings.simplefilter("ignore", ResourceWarning)
    return x + 1, warnings.filters[0]


@pytest.mark.parametrize(
    "program", [warns, ignores, always, records, raises, filters, levels, stays], ids=lambda program: program.__name__
)
def test_warnings(program):
    check(program, (X,))


def test_a_place_warns_once_until_the_filters_change():
    compiled = cdynamo.optimize(warns, fullgraph=True)

    def several(run):
        def program():
            said = []
            for i in range(6):
                if i == 4:
                    warnings.simplefilter("default")
                before = len(sys.stderr.getvalue())
                run(X)
                said.append(sys.stderr.getvalue()[before:])
            return said

        globals().pop("__warningregistry__", None)
        return said_by(program)[0]

    expected = several(warns)
    assert ["UserWarning" in said for said in expected] == [True, False, False, False, True, False]
    assert several(compiled) == expected


def test_a_filter_set_outside(counts):
    compiled = cdynamo.optimize(warns)

    def program(run):
        said = []
        for action in ("ignore", "always", "error", "always", "ignore"):
            with warnings.catch_warnings():
                warnings.simplefilter(action)
                try:
                    said.append(run(X))
                except UserWarning as error:
                    said.append(str(error))
        return said

    assert same(said_by(program, compiled), said_by(program, warns))


def test_records_of_a_caller():
    compiled = cdynamo.optimize(warns, fullgraph=True)
    for _ in range(3):
        for run in (warns, compiled):
            with warnings.catch_warnings(record=True) as log:
                warnings.simplefilter("always")
                run(X)
            assert [(str(w.message), w.category.__name__) for w in log] == [
                ("careful", "UserWarning"), ("old", "DeprecationWarning"), ("careful", "UserWarning")
            ]  # fmt: skip
            assert len({w.lineno for w in log}) == 3 and {w.filename for w in log} == {__file__}


def test_a_function_of_the_program_s_that_shows_warnings():
    shown = []

    def show(message, category, filename, lineno, file=None, line=None):
        shown.append((str(message), category, lineno))

    def program(x):
        warnings.warn("careful")
        return x + len(shown)

    compiled = cdynamo.optimize(program)
    results = []
    for run in (program, compiled, compiled):
        shown.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = show
            results.append((run(X), list(shown)))
    assert same(results[1], results[0]) and same(results[2], results[0])


# ---- modules as objects


def test_assigning_to_a_module():
    module = sys.modules[__name__]
    module.COUNTER = 0

    def program(x):
        global COUNTER
        module.COUNTER += 1
        seen = [COUNTER, module.COUNTER]
        COUNTER += 2
        seen += [COUNTER, module.COUNTER, hasattr(module, "NOT_THERE")]
        module.NEW = x + 1
        del module.NEW
        seen.append(hasattr(module, "NEW"))
        module.LAST = "last"
        return x * COUNTER, seen

    compiled = cdynamo.optimize(program, fullgraph=True)
    for expected in ([1, 1, 3, 3, False, False], [4, 4, 6, 6, False, False], [7, 7, 9, 9, False, False]):
        assert compiled(X)[1] == expected
        assert module.COUNTER == expected[2] and module.LAST == "last" and not hasattr(module, "NEW")


def test_functions_that_c_implements():
    def program(x):
        heap = [5, 3, 1, 4]
        heapq.heapify(heap)
        heapq.heappush(heap, 0)
        popped = heapq.heappop(heap), heapq.heappushpop(heap, 2), heapq.heapreplace(heap, 9)
        by = functools.cmp_to_key(lambda a, b: b - a)
        return (
            x * popped[0], heap, popped, heapq.nlargest(2, [1, 5, 3]), heapq.nsmallest(1, [2, 1]), list(heapq.merge([1, 4], [2])),
            sorted([1, 3, 2], key=by), by(1) < by(2), operator.countOf([1, 2, 1], 1), operator.indexOf([1, 2], 2), sys.intern("a"),
        )  # fmt: skip

    check(program, (X,))


def test_random_state_is_where_it_was():
    """What was written later draws nothing."""

    def program(x):
        print("a")
        return x + 1

    random.seed(3)
    expected = random.random()
    random.seed(3)
    said_by(cdynamo.optimize(program), X)
    assert random.random() == expected
