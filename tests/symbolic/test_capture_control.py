"""Control flow in captured functions: what is captured as a whole, and where the others stop."""

import pytest
from saying import shout

from cdynamo import _C


def capture(function, *args):
    return _C._capture(function, args)


def result_of(function, *args):
    """Captures the whole call and returns what it gives, as the capture says."""
    found = capture(function, *args)
    assert found["end"] == "return", (found["skip_reason"], found["breaks"])
    assert len(found["results"]) == 1
    return found["results"][0]


def agrees(function, *args):
    assert result_of(function, *args) == repr(function(*args))


def arithmetic(a, b):
    c = a + b * 2
    c -= 1
    return c // 3 if c > 5 else -c


def loops(n):
    total = 0
    for i in range(n):
        if i == 3:
            continue
        if i > 6:
            break
        total += i
    else:
        total = -1
    while total > 10:
        total -= 4
    return total


def unpacking(values):
    first, *rest, last = values
    (a, b), c = (first, last), len(rest)
    return a * 100 + b * 10 + c


def boolean_chain(a, b):
    return (a and b) or not a


def comparisons(a, b):
    return a < b <= 5, a is None, a is not b, a in (1, 2), b not in (1, 2)


def strings(name, n):
    return f"{name!r:>6}|{n:03d}|{n}" + "%d" % n


def slices(text):
    return text[1:4] + text[::-1] + text[-1]


def matching(command):
    match command:
        case ("go", direction):
            return "going " + direction
        case [1, 2, *rest]:
            return len(rest)
        case {"key": value}:
            return value
        case int(n) if n > 3:
            return n
        case str():
            return "text"
        case None | True:
            return "constant"
        case _:
            return "other"


def conditional_expression(flag):
    return 1 if flag else 2


def nested_loops(n):
    found = 0
    for i in range(n):
        for j in range(i):
            if (i + j) % 3 == 0:
                found += i * j
    return found


def comprehensions(n):
    squares = [i * i for i in range(n) if i % 2]
    pairs = {i: -i for i in range(3)}
    return sum(squares) + len(pairs) + len({i % 2 for i in range(n)}) + sum(i for i in range(n))


def chained_assignment():
    a = b = [1]
    a.append(2)
    del a[0]
    return len(b)


@pytest.mark.parametrize(
    "function, args",
    [
        (arithmetic, (3, 4)),
        (arithmetic, (1, 1)),
        (loops, (5,)),
        (loops, (20,)),
        (unpacking, ((1, 2, 3, 4),)),
        (boolean_chain, (0, 5)),
        (boolean_chain, (1, 5)),
        (comparisons, (1, 5)),
        (strings, ("ab", 7)),
        (slices, ("abcdef",)),
        (matching, (("go", "north"),)),
        (matching, ([1, 2, 3, 4],)),
        (matching, ({"key": 5},)),
        (matching, (7,)),
        (matching, ("x",)),
        (matching, (None,)),
        (matching, (2,)),
        (conditional_expression, (0,)),
        (nested_loops, (6,)),
        (comprehensions, (7,)),
        (chained_assignment, ()),
    ],
)
def test_whole_function(function, args):
    agrees(function, *args)


def test_arguments_that_are_not_used_are_not_guarded():
    def f(a, b):
        return a + 1

    guards = capture(f, 1, 2)["guards"]
    assert any(guard.startswith("a:") for guard in guards)
    assert not any(guard.startswith("b:") for guard in guards)


def test_an_argument_is_returned_as_itself():
    def f(a, *, b=5):
        return b, a

    assert result_of(f, 7) == "(5, 7)"


def test_break_keeps_stack_and_live_locals():
    def f(a):
        dead = a + 1
        live = dead * 2
        shout(live)
        return live + a

    found = capture(f, 3)
    assert found["end"] == "break"
    assert found["break_at"].startswith("CALL line 3")
    assert found["locals"] == ["a", "live"]
    assert len(found["breaks"]) == 1
    assert found["breaks"][0]["stack"][-1].endswith("shout(live)")


def test_break_in_an_inlined_call_goes_back_to_the_call():
    def inner(values):
        values.append(1)
        shout(values)

    def f():
        values = []
        inner(values)
        return values

    found = capture(f)
    assert found["end"] == "break"
    assert found["break_at"].startswith("CALL line 2")
    assert found["results"].count("#1=[]") == 1  # what inner had appended is undone
    assert [line.split(" in ")[1].split(":")[0] for line in found["breaks"][0]["stack"]] == ["f", "inner"]


def test_break_in_a_loop_cuts_it_where_its_turns_begin():
    def f(values):
        values.append(5)
        for value in [1, 2]:
            shout(value)
        return values

    found = capture(f, [])
    assert found["end"] == "break"
    assert found["break_at"].startswith("FOR_ITER line 2")
    assert found["results"][0] == "call(<built-in function iter>, (1, 2))"


def test_break_in_a_loop_with_nothing_before_it_cuts_it_too():
    def f():
        for value in [1, 2]:
            shout(value)

    found = capture(f)
    assert found["end"] == "break"
    assert found["break_at"].startswith("FOR_ITER line 1")


def test_a_function_goes_on_after_a_loop_that_python_executes():
    def f(a, values):
        total = 0
        for value in values:
            if value < 0:
                break
            found = value
            total += value
        b = total + a
        return b * 2

    found = capture(f, 1, range(200_000))
    assert found["end"] == "break"
    assert found["break_at"].startswith("FOR_ITER line 2")
    assert found["locals"] == ["a", "total"]
    # `value` and `found` die with the function, as in Python, where the loop binds them.
    assert [way.split(": ")[1] for way in found["ways_out"]] == ["a total value found"] * 2


def test_a_way_out_of_a_loop_needs_its_variables():
    def f(values):
        for value in values:
            last = value
        return last + 1

    assert capture(f, range(200_000))["end"] == "skip"  # `last` may be unbound


def test_generators_are_left_to_python():
    def f():
        yield 1

    assert capture(f)["end"] == "skip"


def test_long_loops_have_a_limit():
    def f():
        n = 0
        while True:
            n += 1

    found = capture(f)
    assert found["end"] in ("skip", "break")
    assert found["breaks"][0]["id"] == "CD0014"


def test_wrong_arguments_are_left_to_python():
    def f(a):
        return a

    assert capture(f, 1, 2)["end"] == "skip"
