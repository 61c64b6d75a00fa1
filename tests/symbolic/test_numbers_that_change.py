"""Ints that change from call to call (counters, steps, sizes) where they meet floats: compiled once, and Python's numbers."""

import pytest

import cdynamo

torch = pytest.importorskip("torch")


def times(x, i):
    return x * (0.1 * i)


def divided(x, i):
    return x / (i / 3), i / 7.0


def divisor(x, i):
    return x * (1 / i), 2.5 / i


def both(x, i, rate=0.25):
    return x * (rate * i + i * rate - i / 2)


def as_float(x, i):
    return x + float(i)


def scheduled(x, i):
    scale = i / 10 if i < 6.5 else 1.0 - 0.01 * (i - 6)
    return x * scale


def bounds(x, i):
    return x * 2, i > 2.5, i >= 3.0, i < 100.5, i <= 1e300, i == 4.5, i != 0.5


def of_sizes(x, i):
    y = x.new_ones(i, 2)
    return y.sum() * (0.5 * y.shape[0]) / (y.shape[0] / 3)


def with_a_changing_float(x, i):
    rate = 0.5 + i
    return x * (rate / i) * (i * rate)


PROGRAMS = [times, divided, divisor, both, as_float, scheduled, bounds, of_sizes, with_a_changing_float]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_compiled_at_most_three_times(program, counts):
    fast, x = cdynamo.optimize(program), torch.randn(4)
    for i in range(3, 14):
        expected, got = program(x, i), fast(x, i)
        torch.testing.assert_close(got, expected)
        if isinstance(expected, tuple):
            assert got[1:] == expected[1:] and [type(v) for v in got] == [type(v) for v in expected]
    assert counts.frames_compiled <= 3 and counts.graph_breaks == 0


def test_what_python_refuses_and_cannot_say_exactly():
    def quotient(x, i):
        return x, 1 / i, i / 3, i * 0.5, i < 2.5

    fast, x = cdynamo.optimize(quotient), torch.ones(2)
    for i in (5, 6, 7, -3, 2**53 + 1, 2**60 + 1, -(2**62), 8):
        assert fast(x, i)[1:] == quotient(x, i)[1:]
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fast(x, 0)
    with pytest.raises(OverflowError):
        fast(x, 10**400)


def test_a_counter_of_a_module(counts):
    class Warmup(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.step = 0

        def forward(self, x):
            self.step += 1
            return x * (self.step / 5 if self.step < 5.0 else 1.0)

    plain, model = Warmup(), Warmup()
    fast, x = cdynamo.optimize(model), torch.randn(3)
    for _ in range(12):
        torch.testing.assert_close(fast(x), plain(x))
    assert counts.frames_compiled <= 4


def filled(x, p):
    y = torch.full((3,), p, dtype=torch.float32)
    return y, x.masked_fill(x > 1, p), x.clamp(-p, p), x.new_full((2,), p), x.index_fill(0, torch.tensor([1]), p)


def test_floats_that_fill_are_compiled_at_most_twice():
    cdynamo.reset()
    compiled = cdynamo.optimize(filled, fullgraph=True)
    before = cdynamo.counters()["graphs_compiled"]
    x = torch.arange(4.0)
    for p in (0.5, 2.0, 1e-3, 3.0, 0.1):
        for got, expected in zip(compiled(x, p), filled(x, p)):
            torch.testing.assert_close(got, expected, rtol=0, atol=0)
    assert cdynamo.counters()["graphs_compiled"] - before == 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32])
def test_floats_that_may_not_fit_what_they_fill(dtype):
    def fill(x, p):
        return x.masked_fill(x > 1, p)

    cdynamo.reset()
    compiled = cdynamo.optimize(fill)
    x = torch.arange(4).to(dtype)
    for p in (0.5, 2.5, float("inf"), 1e39, -1e39, 65504.0, 1e5, float("nan"), 3.0):
        if dtype == torch.int32 and not abs(p) < 2**31:
            continue
        try:
            expected = fill(x, p)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error).split(" without")[0]):
                compiled(x, p)
            continue
        torch.testing.assert_close(compiled(x, p), expected, rtol=0, atol=0, equal_nan=True)


def test_numbers_of_library_calls_are_pinned():
    def best(x, k, q):
        return x.kthvalue(k).values, torch.quantile(x, q)

    cdynamo.reset()
    compiled = cdynamo.optimize(best, fullgraph=True)
    x = torch.tensor([3.0, 1.0, 2.0, 5.0])
    for k, q in ((1, 0.5), (2, 0.25), (3, 0.75), (2, 0.25)):
        torch.testing.assert_close(compiled(x, k, q), best(x, k, q))
