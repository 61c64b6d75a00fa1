"""Loops are unrolled where that pays, and left to Python where it does not; compiling ends in bounded time."""

from __future__ import annotations

import itertools
import logging
import sys

import numpy as np
import pytest

import cdynamo
from cdynamo.polyfills import itertools as polyfills


@pytest.fixture(autouse=True)
def own_settings():
    yield
    cdynamo.config.compile_seconds = 30.0


def breaks_of(function, *arguments):
    return [record.id for record in cdynamo.explain(function)(*arguments).breaks]


def triangle(a, turns):
    """Every turn works on arrays of sizes that no other turn has."""
    a = a * 2
    c = np.zeros_like(a)
    for i in range(turns):
        c[i + 1 :, i] = a[:, i] @ a[:, i + 1 :]
    return c + 1


def test_a_loop_whose_turns_have_sizes_of_their_own_is_left_to_python():
    a = np.random.default_rng(0).random((200, 200))
    assert breaks_of(triangle, a, 199) == ["CD0015"]
    fast = cdynamo.optimize(triangle)
    before = cdynamo.counters()
    assert np.allclose(fast(a, 199), triangle(a, 199))
    assert cdynamo.counters()["graphs_compiled"] - before["graphs_compiled"] == 2  # before the loop and after it


def test_a_short_loop_of_other_sizes_is_unrolled():
    a = np.random.default_rng(0).random((12, 12))
    assert breaks_of(triangle, a, 11) == []


def test_a_long_loop_over_equal_sizes_is_unrolled():
    def f(x):
        for i in range(300):
            x = x * 0.5 + i
        return x

    assert breaks_of(f, np.ones(3)) == []


def test_a_whole_graph_is_unrolled_where_the_program_demands_one():
    a = np.random.default_rng(0).random((140, 140))
    fast = cdynamo.optimize(triangle, fullgraph=True)
    assert np.allclose(fast(a, 139), triangle(a, 139))


def test_a_long_loop_over_plain_values_is_left_to_python():
    def f(x, text):
        x = x * 2
        count = 0
        for letter in text:
            count += letter.isalpha()
            if letter == "q":
                count += 2
        return x + count

    text = "the quick brown fox" * 3000
    x = np.arange(3.0)
    assert breaks_of(f, x, text) == ["CD0014"]
    assert np.array_equal(cdynamo.optimize(f)(x, text), f(x, text))


def test_a_loop_in_an_inlined_call_is_left_to_python():
    def helper(x):
        total = 0
        while total < 40_000:
            total += 1
        return x + total

    def f(x):
        return helper(x * 2) * 3

    x = np.arange(3.0)
    assert breaks_of(f, x)[0] == "CD0014"
    assert np.array_equal(cdynamo.optimize(f)(x), f(x))


def test_what_takes_too_long_to_compile_is_left_to_python(caplog):
    def f(x):
        return x * 2 + 1 - x.sum()

    cdynamo.config.compile_seconds = 1e-9
    x = np.arange(3.0)
    with caplog.at_level("WARNING"):
        assert np.array_equal(cdynamo.optimize(f)(x), f(x))
    assert "runs in Python: compiling it takes longer than config.compile_seconds allows" in caplog.text


def test_a_second_try_unrolls_less(caplog):
    def f(x):
        x = x * 2
        for i in range(2000):
            x = x + i
        return x - 1

    cdynamo.config.compile_seconds = 1e-9
    x = np.arange(3.0)
    assert np.array_equal(cdynamo.optimize(f)(x), f(x))


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_the_budget_is_positive(value):
    with pytest.raises(ValueError, match="compile_seconds must be more than 0"):
        cdynamo.config.compile_seconds = value


def test_thousands_of_inputs_and_outputs():
    arrays = [np.full(2, float(i)) for i in range(2000)]

    def f(arrays):
        return [a + 1 for a in arrays]

    for got, a in zip(cdynamo.optimize(f)(arrays), arrays, strict=True):
        assert np.array_equal(got, a + 1)


def test_thousands_of_operators_in_a_row():
    def f(x):
        for i in range(3000):
            x = x * 0.999 + i % 7
        return x

    x = np.arange(4.0)
    assert np.allclose(cdynamo.optimize(f)(x), f(x))


def test_combinations_and_permutations_are_made_one_after_the_other():
    def f(x):
        for a, b in itertools.combinations([1, 2, 3, 4], 2):
            x = x * a + b
        for a, b, c in itertools.permutations([1, 2, 3]):
            x = x - a * b + c
        return x, list(itertools.combinations("abc", 2)), list(itertools.permutations("abc", 32))

    x = np.ones(3)
    assert breaks_of(f, x) == []
    got, expected = cdynamo.optimize(f)(x), f(x)
    assert np.allclose(got[0], expected[0])
    assert got[1:] == expected[1:]


@pytest.mark.parametrize("size", range(6))
def test_combinations_and_permutations_of_every_length(size):
    for r in range(size + 2):
        assert list(polyfills.permutations(range(size), r)) == list(itertools.permutations(range(size), r))
        assert list(polyfills.combinations(range(size), r)) == list(itertools.combinations(range(size), r))


def test_thousands_of_values_are_handed_over():
    def f(x):
        x = x + 1
        pairs = [(i, str(i)) for i in range(5000)]
        cdynamo.graph_break()
        return x * len(pairs), pairs

    x = np.arange(3.0)
    got, expected = cdynamo.optimize(f)(x), f(x)
    assert np.array_equal(got[0], expected[0])
    assert got[1] == expected[1]


@pytest.mark.parametrize(
    "function",
    [
        lambda n: len("".join(map(chr, list(range(n // 2)) + list(range(n // 2))))),
        lambda n: list(range(n))[-1],
        lambda n: ([0] * n)[-1],
        lambda n: len(list("ab" * n)),
    ],
)
def test_a_sequence_too_long_to_have_a_value_for_each_item_is_left_to_python(function):
    n = 1_000_000
    assert "CD0217" in breaks_of(function, n)
    assert cdynamo.optimize(function)(n) == function(n)


@pytest.mark.parametrize("function", [lambda n, s: str(n)[:9], lambda n, s: int(s) % 97, lambda n, s: repr(n)[-3:]])
def test_numbers_of_thousands_of_digits_are_left_to_python(function):
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        arguments = 7**20_000, "7" * 20_000
        assert breaks_of(function, *arguments) == ["CD0220"]
        assert cdynamo.optimize(function)(*arguments) == function(*arguments)
    finally:
        sys.set_int_max_str_digits(limit)


def test_numbers_of_thousands_of_digits_are_not_written_out_in_logs(caplog):
    def f(x, n):
        return x + n % 7

    n = 7**20_000
    compiled = cdynamo.optimize(f)
    cdynamo.set_logs(recompiles=True)
    try:
        with caplog.at_level(logging.INFO, logger="cdynamo.recompiles"):
            for number in (n, n + 1, n + 2):
                assert compiled(np.ones(2), number).tolist() == f(np.ones(2), number).tolist()
    finally:
        cdynamo.set_logs(recompiles=False)
    assert f"an int of {n.bit_length()} bits, ...{n % 2**64:016x}" in caplog.text
