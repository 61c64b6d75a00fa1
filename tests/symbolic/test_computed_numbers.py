"""What Python computes from ints and floats that change from call to call: powers, functions of math, comparisons. It is compiled
once, and Python's own numbers, types and errors come out, bit by bit."""

import bisect
import math

import pytest
from values_check import check_equal

import cdynamo

torch = pytest.importorskip("torch")


def corrected(x, s):
    return x * (math.sqrt(1 - 0.999**s) / (1 - 0.9**s))


def cosine(x, s):
    return x * (0.5 * (1 + math.cos(math.pi * s / 100)))


def warm_up(x, s):
    return x * (64**-0.5 * min(s**-0.5, s * 4000**-1.5))


def rounded(x, s):
    return x * round(s * 0.37, 1), round(s * 0.37), int(s * 0.7), abs(7.5 - s), float(s) % 3, s // 2.5


def sized(x, s):
    return x.new_zeros(int(s * 0.5) + 2) + x[0], x[: math.floor(s / 3)].sum()


def returned(x, s):
    rate = 0.9**s
    return x + rate, rate, [rate, rate], math.exp(s / 10)


def unused_by_the_graph(x, s):
    return x + 1, math.log(s), math.isnan(s), math.gcd(int(s), 6)


def of_a_size(x, s):
    y = x.new_ones(int(s), 3)
    return y.sum() * y.shape[0] ** -0.5 * math.log2(y.shape[0])


PROGRAMS = [corrected, cosine, warm_up, rounded, sized, returned, unused_by_the_graph, of_a_size]


@pytest.mark.parametrize("kind", [int, lambda number: number + 0.25], ids=["int", "float"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_compiled_twice(program, kind, counts):
    fast, x = cdynamo.optimize(program), torch.arange(8.0)
    for number in range(3, 14):
        check_equal(fast(x, kind(number)), program(x, kind(number)))
    assert counts.frames_compiled <= 2 + (program is sized) and counts.graph_breaks == 0


def test_one_object_stays_one():
    fast, x = cdynamo.optimize(returned), torch.ones(2)
    for s in (2, 3, 4.5, 5.5):
        _, rate, (first, second), _ = fast(x, s)
        assert rate is first is second


@pytest.mark.parametrize(
    "program", [lambda x, s: x * 2 if s * 0.1 < 0.85 else x * 3, lambda x, s: x * (2 if s * 0.3 - 3 else 1)]
)
def test_a_branch_is_compiled_once_for_each_way(program, counts):
    fast, x = cdynamo.optimize(program), torch.ones(2)
    for s in [*range(1, 16), *range(1, 16)]:
        check_equal(fast(x, s), program(x, s))
    assert counts.frames_compiled <= 3


def test_what_python_refuses():
    def program(x, s):
        return x * 2, math.exp(s), math.log(s - 4), (s - 7) ** -1.5, 1 / (s * 0.5 - 3)

    fast, x = cdynamo.optimize(program), torch.ones(2)

    def outcome(function, s):
        try:
            return function(x, s)[1:]
        except Exception as error:
            return type(error), str(error)

    for s in (8, 9, 10, 4, 6, 7, 5, 1000, 11, 12.5, 13.5, 6.0, 4.0, 1e4, float("inf"), 2**60, 9, True):
        assert outcome(fast, s) == outcome(program, s)


@pytest.mark.parametrize(
    "compute",
    [
        *(
            lambda n, m: n / m,
            lambda n, m: n // m,
            lambda n, m: n % m,
            lambda n, m: n ** (m - 1),
            lambda n, m: n / m is None,
        ),
        *(
            lambda n, m: math.sqrt(m - 1),
            lambda n, m: math.log(m),
            lambda n, m: math.exp(n * m * 1000.0),
            lambda n, m: 1.5 / m,
        ),
    ],
)
@pytest.mark.parametrize("kinds", [(int, int), (int, float), (float, int), (float, float)])
def test_what_python_refuses_where_nobody_reads_the_number(compute, kinds):
    def program(x, n, m):
        compute(n, m)
        return x + 1

    def outcome(function, *numbers):
        try:
            return function(torch.ones(2), *numbers).tolist()
        except Exception as error:
            return type(error), str(error)

    fast = cdynamo.optimize(program)
    for pair in ((5, 2), (1, 2), (1, 1), (0, 0), (0, 3), (3, 0), (5, 2)):
        numbers = [kind(number) for kind, number in zip(kinds, pair)]
        assert outcome(fast, *numbers) == outcome(program, *numbers)


def test_zeros_have_signs_and_nan_is_no_number():
    def program(x, s):
        return x + 1, s * 0.5 == 0.0, math.copysign(1.0, s * -1.0), s * 0.5 != s * 0.5, max(s * 1.5, 2.5), bool(s)

    fast, x = cdynamo.optimize(program), torch.ones(2)
    for s in (1.0, 2.0, 0.0, -0.0, 3.0, float("nan"), -1.0, float("nan"), 0.0):
        assert repr(fast(x, s)[1:]) == repr(program(x, s)[1:])


def test_numbers_in_objects():
    class Schedule:
        def __init__(self):
            self.step, self.rate = 0, 0.1

        def __call__(self, x):
            self.step += 1
            before = self.rate
            self.rate = before * 0.5 ** (self.step / 3)
            return x * self.rate, before, math.sqrt(before)

    plain, scheduled = Schedule(), Schedule()
    fast, x = cdynamo.optimize(scheduled), torch.ones(3)
    for _ in range(12):
        check_equal(fast(x), plain(x))
        assert (scheduled.step, scheduled.rate) == (plain.step, plain.rate)


def test_ints_of_a_class_of_their_own():
    class Number(int):
        pass

    def program(x, s):
        number = Number(s)
        return x + 1, number == s, number + 1, number % 3, type(number)

    fast, x = cdynamo.optimize(program), torch.ones(2)
    for s in (5, 6, 7, 8):
        assert fast(x, s)[1:] == program(x, s)[1:]


def test_powers_of_ints(counts):
    def program(x, s):
        return x * 2, (s - 8) ** 2, s**3, s > 2**62, s < 2**62, s > -(2**63)

    fast, x = cdynamo.optimize(program), torch.ones(2)
    for s in range(3, 14):
        check_equal(fast(x, s), program(x, s))
    assert counts.frames_compiled <= 3
    for s in (2**31, 2**53, -(2**40), 2**62, 2**63):
        check_equal(fast(x, s), program(x, s))


def test_much_to_compute_is_compiled_for_each_value():
    def program(x, s):
        rate = s
        for _ in range(100):
            rate = math.sin(rate + rate)
        return x * rate, rate

    fast, x = cdynamo.optimize(program), torch.ones(2)
    for s in (0.1, 0.2, 0.3):
        check_equal(fast(x, s), program(x, s))


def test_numbers_that_the_backward_reads(counts):
    def loss(w, x, s):
        return (torch.sin(w * x) * s * 0.9**s).sum()

    fast, x = cdynamo.optimize(loss), torch.arange(4.0)
    for s in (2, 3, 4, 5.5, 6.5, 7.5):
        gradients = []
        for function in (loss, fast):
            w = torch.full((4,), 0.3, requires_grad=True)
            (first,) = torch.autograd.grad(function(w, x, s), w, create_graph=True)
            gradients.append((first, *torch.autograd.grad(first.square().sum(), w)))
        check_equal(gradients[1], gradients[0])
    assert counts.frames_compiled <= 4


@pytest.mark.native
def test_in_a_gradient_with_a_branch():
    def loss(w, s):
        y = (w * 0.5**s).sum()
        return y * 2 if y > 1 else y * math.cos(s)

    for s in (1.5, 2.5, 0.25):
        w = torch.full((3,), 0.7)
        expected = w.clone().requires_grad_()
        loss(expected, s).backward()
        torch.testing.assert_close(cdynamo.grad(loss)(w, s), expected.grad)


MILESTONES = {3: 0.5, 7: 0.25, 8: 2}
DECAYS = [2, 5, 5, 9]


def in_a_dict(x, i):
    return x * 0.5 if i in MILESTONES else x + i


def in_a_set(x, i):
    return x * 0.5 if i not in {2, 4.0, -1} else x + i


def bisected(x, i):
    return x * 0.5 ** bisect.bisect_right(DECAYS, i) + bisect.bisect_left(DECAYS, i + 1)


@pytest.mark.parametrize(("f", "most"), [(in_a_dict, 3), (in_a_set, 3), (bisected, 2)])
def test_where_an_int_stands_among_numbers(f, most):
    compiled = cdynamo.optimize(f, fullgraph=True)
    before = cdynamo.counters()["graphs_compiled"]
    x = torch.arange(3.0)
    for i in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, -1, 1):
        check_equal(compiled(x, i), f(x, i))
    assert cdynamo.counters()["graphs_compiled"] - before <= most


def test_numbers_among_which_an_int_stands_may_change(monkeypatch):
    compiled = cdynamo.optimize(in_a_dict, fullgraph=True)
    x = torch.arange(3.0)
    for i in (1, 2, 3, 4):
        check_equal(compiled(x, i), in_a_dict(x, i))
    monkeypatch.setitem(MILESTONES, 4, 1.0)
    for i in (1, 3, 4, 5):
        check_equal(compiled(x, i), in_a_dict(x, i))


def test_keys_that_are_no_numbers():
    class Key:
        def __hash__(self):
            return 3

        def __eq__(self, other):
            return other == 3

    def f(x, i, keys):
        return x + 1 if i in keys else x - i

    compiled = cdynamo.optimize(f)
    x = torch.arange(3.0)
    for i in (1, 2, 3, 4):
        check_equal(compiled(x, i, {Key(): 1, "a": 2}), f(x, i, {Key(): 1, "a": 2}))


@pytest.mark.parametrize("grows", [lambda s: s * 1.5 - s, lambda s: s * s - s], ids=["scaled", "squared"])
def test_what_a_number_was_computed_from_is_kept_once(grows):
    """Each step reads the number twice: in 60 steps that are 2 ** 60 ways to it."""

    def f(x, s):
        for _ in range(60):
            s = grows(s)
        return x * s

    compiled = cdynamo.optimize(f)
    for s in (0.1, 0.2, 0.3, 0.1):
        torch.testing.assert_close(compiled(torch.ones(3), s), f(torch.ones(3), s))
