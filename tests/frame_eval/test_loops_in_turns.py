"""Loops that graph breaks cut into turns: each piece between two breaks is compiled once, for all turns and all calls."""

from __future__ import annotations

import sys

import pytest
from saying import LOG, say

import cdynamo

torch = pytest.importorskip("torch")


def a_for_loop(x, n):
    x = x * 2
    for _ in range(n):
        x = x + 1
        say()
        x = x * 0.9
    return x - 1


def a_counter(x, n):
    total = 0
    for i in range(n):
        x = x + i
        say(i)
        total += 1
        x = x * 0.9 + total
    return x - total


def a_while_loop(x, n):
    i = 0
    while i < n:
        x = x + i
        say(i)
        i += 1
        x = x.relu()
    return x * 2


def loops_in_loops(x, n):
    for i in range(n):
        x = x + i
        for k in range(3):
            x = x * 0.5
            say(i, k)
            x = x + k
        x = x - 1
    return x


def a_list_that_grows(x, n):
    out = [x]
    for i in range(n):
        x = x * 1.1
        say(i)
        out.append(x.sum())
    return out


def a_value_of_a_tensor(x, n):
    total = 0.0
    for _ in range(n):
        x = x * 1.1
        total += float(str(x.sum().item()))
    return x * total


def pairs(x, n):
    y = x * 2
    for i, (a, b) in enumerate(zip([x] * n, [x + 1] * n)):
        y = y + a * b
        say(i)
        y = y * 0.5
    return y


def a_loop_that_is_left(x, n):
    for i in range(100):
        x = x + 1
        say(i)
        if i > n:
            break
        x = x * 1.01
    else:
        x = x + 100
    return x


def a_context_manager(x, n):
    for i in range(n):
        with torch.no_grad():
            x = x + 1
            say(i)
            x = x * 2
    return x


# The program, and how many graphs its pieces are (where the loop has more than one turn).
PIECES = {
    a_for_loop: 4,
    a_counter: 3,
    loops_in_loops: 4,
    a_list_that_grows: 2,
    a_value_of_a_tensor: 3,
    pairs: 3,
    a_loop_that_is_left: 2,
    a_context_manager: 2,
}


def observe(function, *args):
    LOG.clear()
    try:
        result = function(*args)
    except Exception as error:
        result = (type(error).__name__, str(error))
    return result, list(LOG)


@pytest.mark.parametrize("program", [*PIECES, a_while_loop], ids=lambda program: program.__name__)
def test_agrees_with_python(program):
    compiled = cdynamo.optimize(program)
    for n in (4, 0, 1, 7, 4):
        x = torch.randn(5)
        got, log = observe(compiled, x, n)
        expected, expected_log = observe(program, x, n)
        torch.testing.assert_close(got, expected)
        assert log == expected_log


@pytest.mark.native  # for others each number is a constant
@pytest.mark.parametrize("program", PIECES, ids=lambda program: program.__name__)
def test_each_piece_is_compiled_once(program, counts):
    compiled = cdynamo.optimize(program)
    for _ in range(2):
        compiled(torch.arange(5.0), 8)
    assert counts.graphs_compiled == PIECES[program]
    assert counts.graph_breaks == 1
    assert counts.recompiles == 0


def test_gradients_go_through_the_turns():
    compiled = cdynamo.optimize(a_counter)
    x = torch.randn(5, requires_grad=True)
    compiled(x, 6).square().sum().backward()
    y = x.detach().clone().requires_grad_()
    a_counter(y, 6).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_a_long_loop_does_not_nest():
    """Each turn goes on from the last one in the same call: neither recursion nor the stack grows."""

    def deep(x):
        depths = []
        for _ in range(5_000):
            x = x + 1
            depths.append(frames())
        return x, depths

    def frames():
        frame, count = sys._getframe(), 0
        while frame:
            frame, count = frame.f_back, count + 1
        return count

    frames = cdynamo.disable(frames)
    result, depths = cdynamo.optimize(deep)(torch.zeros(2))
    assert result.tolist() == [5_000.0] * 2
    assert len(set(depths)) == 1


def test_a_loop_that_computes_nothing_is_left_to_python(counts):
    def f(x, n):
        said = []
        for i in range(n):
            said.append(i)
            say(i)
        return x + len(said)

    compiled = cdynamo.optimize(f)
    assert compiled(torch.zeros(2), 300).tolist() == [300.0] * 2
    assert compiled(torch.zeros(2), 20).tolist() == [20.0] * 2
    assert counts.recompiles <= 2  # how many turns, how long the list is


def test_an_exception_in_a_turn_goes_on_with_the_next():
    def f(x, n):
        caught = 0
        for i in range(n):
            try:
                x = x + 1
                say(1 / (i % 3))
                x = x * 2
            except ZeroDivisionError:
                caught += 1
                x = x - 3
            finally:
                x = x * 0.5
        return x, caught

    compiled = cdynamo.optimize(f)
    for n in (7, 3, 0, 8):
        x = torch.randn(4)
        torch.testing.assert_close(compiled(x, n), f(x, n))


def test_what_is_called_again_after_an_exception():
    """The stack of the broken instruction looks different where Python comes to it by itself."""
    found = []

    def f(x, n):
        a = None
        for _ in range(n):
            try:
                found.append(torch.stack([x, a]))
            except TypeError:
                pass
            finally:
                a = x
        return len(found)

    compiled = cdynamo.optimize(f)
    assert compiled(torch.ones(2), 3) == 2
    assert [t.shape for t in found] == [(2, 2)] * 2


def test_numbers_of_a_turn_are_compared_by_identity():
    class Thing:
        def __init__(self, value):
            self.value = value

    def f(x, things):
        known = {id(thing): thing.value for thing in things}
        same = []
        for thing in things:
            x = x + 1
            say()
            same.append(thing.value is known[id(thing)])
        return x, same

    things = [Thing(1000 + i) for i in range(4)]
    assert cdynamo.optimize(f)(torch.zeros(1), things)[1] == [True] * 4


def test_nan_in_a_container_is_found_by_identity():
    def f(x, values):
        found = []
        for container in (list(values), tuple(values)):
            x = x + 1
            say()
            found.append((values[0] in container, container[0] is values[0]))
        return x, found

    assert cdynamo.optimize(f)(torch.zeros(1), [float("nan"), 1.0])[1] == [(True, True)] * 2


def test_a_new_dict_of_a_subclass_is_iterated_over():
    class Counts(dict):
        pass

    def f(x):
        counts = Counts(a=1, b=2)
        for key in counts:
            x = x + counts[key]
            say(key)
        return x

    assert cdynamo.optimize(f)(torch.zeros(1)).tolist() == [3.0]


def test_a_list_that_others_hold_is_appended_to():
    def f(x, out):
        for i in range(5):
            x = x + 1
            say(i)
            out.append(x)
        return len(out)

    compiled = cdynamo.optimize(f)
    out = [torch.zeros(1)]
    assert compiled(torch.zeros(1), out) == 6
    assert compiled(torch.zeros(1), out) == 11
    assert [t.item() for t in out] == [0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5]


def test_appending_does_not_compile_again(counts):
    def f(x, out):
        out.append(x * 2)
        return x + 1

    compiled, out = cdynamo.optimize(f), []
    for _ in range(12):
        compiled(torch.ones(2), out)
    assert len(out) == 12 and counts.frames_compiled == 1


def test_an_appended_list_that_is_read_afterwards():
    def f(x, out):
        out.append(x)
        out.extend([x + 1, x + 2])
        return len(out), out[-1] * out[0]

    compiled = cdynamo.optimize(f)
    for size in (0, 2, 3):
        mine, theirs = [torch.full((2,), 5.0)] * size, [torch.full((2,), 5.0)] * size
        got, expected = compiled(torch.ones(2), mine), f(torch.ones(2), theirs)
        torch.testing.assert_close(got, expected)
        torch.testing.assert_close(mine, theirs)


@pytest.mark.native
def test_a_comprehension_is_cut_too(counts):
    def f(tensors):
        return [(say(i), t * 2 + 1)[1] for i, t in enumerate(tensors)]

    tensors = [torch.randn(3) for _ in range(6)]
    torch.testing.assert_close(cdynamo.optimize(f)(tensors), f(tensors))
    assert counts.graphs_compiled == 1


def test_unicode_errors_that_are_not_initialized():
    def f(x):
        texts = []
        for kind in (UnicodeEncodeError, UnicodeDecodeError):
            x = x + 1
            texts.append(str(kind.__new__(kind)))
        return x, texts

    assert cdynamo.optimize(f)(torch.zeros(1))[1] == ["", ""]


def test_int_by_way_of_trunc_warns():
    class Cut:
        def __trunc__(self):
            return 4

    def f(x):
        return x + int(Cut())

    if sys.version_info >= (3, 14):
        pytest.skip("int() does not ask for __trunc__")
    with pytest.warns(DeprecationWarning):
        assert cdynamo.optimize(f)(torch.zeros(1)).tolist() == [4.0]


def test_reset_forgets_what_was_learnt_of_loops(counts):
    def program(items):
        seen = set(items)
        for item in seen:
            seen.add(item + 100)
        return seen

    compiled = cdynamo.optimize(program)
    for breaks in (1, 2):
        cdynamo.reset()
        cdynamo.config.keep_empty_graphs = True
        with pytest.raises(RuntimeError, match="Set changed size"):
            compiled([1, 2])
        assert counts.graph_breaks == breaks
