"""Numbers and sizes that only the graph knows: `.item()`, masks, nonzero ... are read while it runs, and cut no graph."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from asserting_programs import checks, failing_assertion

import cdynamo

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.native  # for backends in Python the graph breaks there, as torch.compile's does


def item(x):
    return x * x.sum().item() + 1


def items_of_several_kinds(x):
    return x.sum().item(), (x > 0).sum().item(), float(x[0, 0]), int(x[0, 1] * 100), x.half().max().item()


def arithmetic_of_floats(x):
    loss = (x**2).mean()
    return loss, loss.item() / 3 - 1.5, -(2 - loss.item()) * 2 + loss.item()


def arithmetic_of_ints(x):
    n = (x > 0).sum().item()
    return n * 2 - 1, (n + 5) // 3, n % 4, x * n, min(n, 3), max(n, 7)


def an_index(x):
    i = int(x.argmax())
    return x.reshape(-1)[i] * 2


def a_slice(x):
    n = (x > 0).sum().item()
    flat = x.reshape(-1)
    return flat[:n], flat[n:].sum(), flat[n : n + 3], n


def sizes_of_new_tensors(x):
    n = int((x > 0).sum())
    return torch.zeros(n) + x.sum(), torch.arange(n) * 2, x.new_ones(n, 2)


def a_mask(x):
    return x[x > 0] * 2 + 1


def a_sum_of_a_mask(x):
    return x[x > 0].sum()


def a_mask_of_rows(x):
    return x[x.sum(1) > 0].sum(0)


def a_mask_of_columns(x):
    return x[:, x.sum(0) > 0] * 3


def a_mask_of_what_is_transposed(x):
    return x.t()[(x > 0).t()], x.t()[:, x.sum(1) > 0]


def masks_in_a_row(x):
    positive = x[x > 0]
    return positive[positive > 0.5].sum() + positive[positive <= 0.5].mean()


def writing_by_a_mask(x):
    y = x.clone()
    mask = y > 0
    y[mask] = y[mask] * 2
    y[y < -1] = 7
    return y


def adding_by_a_mask(x):
    y = x * 1
    y[y > 0] += 10
    return y


def one_mask_twice(x):
    mask = x > 0
    y = x.sin()
    return x[mask] + y[mask], (x[mask] * y[mask]).sum()


def sizes_of_what_is_selected(x):
    y = x[x > 0]
    return len(y), y.shape, y.numel(), y.mean()


def nonzero(x):
    return (x > 1).nonzero(), torch.nonzero(x, as_tuple=True), torch.argwhere(x > 0)


def where_of_one(x):
    rows, columns = torch.where(x > 1)
    return x[rows, columns].sum() + rows.sum()


def masked_select(x):
    return torch.masked_select(x, x > 0), x.masked_select(x.sum(0) > 0)


def unique(x):
    return torch.unique((x * 2).round()), torch.unique((x * 2).round(), return_inverse=True, return_counts=True)


def bincount(x):
    places = x.abs().round().long().reshape(-1)
    return torch.bincount(places), torch.bincount(places, x.reshape(-1), minlength=12)


def joined(x):
    return torch.cat([x[x > 0], x.reshape(-1)]), torch.stack([x[x > 0], x[x > 0] * 2])


def routed(x):
    """A mixture of experts."""
    choice, out = x.argmax(1), torch.zeros_like(x)
    for expert in range(5):
        rows = torch.where(choice == expert)[0]
        out = out.index_add(0, rows, torch.tanh(x[rows]) * (expert + 1))
    return out


def lists(x):
    places = (x > 0).sum(1).tolist()
    return (
        x[0].tolist(),
        x[:, :2].tolist(),
        places,
        x.sum().tolist(),
        x[0, : places[1]],
        (x > 1).any(0).tolist(),
        places[0] + places[1],
    )


def pieces_by_counts(x):
    counts = (x > 0).sum(1)
    return torch.split(torch.arange(20.0)[: counts.sum()], counts.tolist())


def bools(x):
    some, every = bool((x > 2).any()), (x > -9).all().item()
    return (
        x * some,
        x + every,
        not some,
        some & every,
        some | False,
        some ^ True,
        some + 2,
        -every,
        some,
        every,
        int(some),
        float(every),
    )


def comparisons_that_are_bools(x):
    """Of ints: what a program does with a bool."""
    many, more = x.gt(0).sum().item() > 9, x.lt(9).sum().item() >= 15
    return (
        many == 1, 1 == many, many != more, many + 1, ~many, -many, many & more, many | False, not many, many * x, int(many), float(many),
        many > 0.5, more == 0.5, x[int(many)], many ^ more, max(many, 0), str(many), many / 2,
    )  # fmt: skip


def comparisons_of_tensors(x):
    return (
        torch.equal(x, x * 1),
        torch.equal(x, x[1:]),
        torch.allclose(x, x + 1e-9),
        x.equal(x + 1),
        x.sum().is_nonzero(),
    )


def text_of_a_bool(x):
    return f"{bool(x.any())} {(x > 2).any().item()!s:>6}"


def repeated(x):
    counts = (x > 0).sum(1)
    return (
        torch.repeat_interleave(x, counts, dim=0), x.repeat_interleave(torch.tensor([1, 0, 2, 1, 3]), 1), x.repeat_interleave(2, dim=-1),
        x.repeat_interleave(counts, 0, output_size=int(counts.sum())),
        torch.repeat_interleave(counts), x[0].repeat_interleave(torch.tensor(2)), torch.repeat_interleave(x, 3),
    )  # fmt: skip


def unique_along(x):
    signs = (x > 0).int()
    return torch.unique(signs, dim=0), torch.unique(signs, dim=1, return_inverse=True, return_counts=True)


def unique_consecutive(x):
    signs = (x > 0).int()
    return (
        torch.unique_consecutive(signs), torch.unique_consecutive(signs, return_inverse=True, return_counts=True),
        signs.unique_consecutive(dim=0), torch.unique_consecutive(signs, dim=1, return_inverse=True),
    )  # fmt: skip


def errors_that_do_not_happen(x):
    y = x * 2
    if not torch.isfinite(y).all():
        raise ValueError("not finite")
    if (x > 100).any() or torch.isnan(x).any():
        names = [f"{i}: {v}" for i, v in enumerate(x.shape)]
        raise ValueError(f"too large: {x.max().item():.1f} {names}")
    n = (x > 0).sum().item()
    if n > 1000:
        raise IndexError if x.dim() > 1 else ValueError
    assert (y.abs() < 1000).all(), "large"
    return y + n


def tensors_as_sizes(x):
    n = (x > 0).sum()
    return torch.zeros(n, 2) + x.sum(), torch.arange(n), torch.full((3, n), 2.5), torch.eye(n), x.new_full((n,), n)


def tensors_as_indices(x):
    i = (x > 0).sum() % 4
    return x.select(0, i), x.narrow(0, i, 1), x[i] * 2, torch.roll(x, i), x.unsqueeze(0).repeat(1, i + 1, 1)


def filled_with_what_is_read(x):
    n, low = (x > 0).sum(), x.min().item()
    return [
        torch.full((2, 3), low), torch.full((2,), n), torch.full((), n, dtype=torch.float64), torch.full((2,), n > 3),
        torch.full_like(x, low), torch.full_like(x, n), torch.full_like(x.int(), n), x.new_full((2,), low), x.t().masked_fill(x.t() > 0, low),
        torch.full((2,), low * 1.5, dtype=torch.float64), torch.full((2,), x.half().max()), torch.full((2,), x.half().max(), dtype=torch.half),
    ]  # fmt: skip


def clamped_by_what_is_read(x):
    low, high = x.quantile(0.25).item(), x.mean().item() + 1
    return x.clamp(low, high), x.clamp(min=low), x.clamp(max=high), x.clamp_min(low), x.clamp(low, 0.5)


def tensors_of_what_is_read(x):
    n, low = int((x > 0).sum()), x.min().item()
    return [
        torch.tensor(low), torch.tensor(n), torch.tensor(low > 0), torch.tensor([low, 2.0, low]), torch.tensor([n, 3]), torch.tensor([n, low]),
        torch.tensor([[low, n], [1, 2]], dtype=torch.float64), torch.as_tensor(low), torch.tensor([x[0, 0], x[1, 1]]), torch.tensor([low > 0, low < -1]),
        torch.tensor([(x > 0).sum(), n]), x.new_tensor([low, low]), torch.tensor(low, dtype=torch.float64) * 2, torch.tensor(low, dtype=torch.half),
    ]  # fmt: skip


def extremes_of_what_is_read(x):
    low, high, n = x.min().item(), x.max().item(), int(x.sum() * 10)
    return (
        abs(low),
        abs(n),
        max(low, 0.5),
        min(high, 1.0, low),
        max([low, high, -high]),
        max(0.0, low) + x,
        abs(low) * x,
    )


def indices_in_lists(x):
    i, j = int(x[0].argmax()) % 4, x.sum(1).argmin()
    return x[[i, 1]], x[[0, int(j), i], 1:], x[:, [i]], torch.tensor([i > 1, True, i == j])


def classes_of_what_is_read(x):
    return (
        torch.nn.functional.one_hot(x.argmax(1)),
        torch.nn.functional.one_hot(x.argmax(1).reshape(2, 2)),
        torch.nn.functional.one_hot(x.argmax(1), 7),
    )


def functions_of_what_is_read(x):
    size, n, share = x.abs().sum().item(), int((x > 0).sum()), x.sigmoid().mean().item()
    return (
        math.log(size), math.exp(share), math.sqrt(size) * x, math.pow(size, share), math.atan2(share, size), math.floor(size), math.ceil(share),
        size**0.5, 2**share, n**2, n / (size + 1), share / size, 1 / size, size // 1e9, size % 1e9, n % 4 - n // 4, divmod(size, share), round(size), round(size, 2), round(n / 7, 3),
        int(size), x.reshape(-1)[: int(size / 10)], float(n), math.isfinite(size), math.isnan(share), math.hypot(n, size), (n / 20) * x, size / (n + 1),
    )  # fmt: skip


PROGRAMS = [
    functions_of_what_is_read, indices_in_lists, classes_of_what_is_read, tensors_as_sizes, tensors_as_indices, filled_with_what_is_read, clamped_by_what_is_read, tensors_of_what_is_read, extremes_of_what_is_read,
    item, items_of_several_kinds, arithmetic_of_floats, arithmetic_of_ints, an_index, a_slice, sizes_of_new_tensors, a_mask,
    a_sum_of_a_mask, a_mask_of_rows, a_mask_of_columns, a_mask_of_what_is_transposed, masks_in_a_row, writing_by_a_mask,
    adding_by_a_mask, one_mask_twice, sizes_of_what_is_selected, nonzero, where_of_one, masked_select, unique, bincount, checks,
    joined, routed, lists, pieces_by_counts, bools, comparisons_of_tensors, text_of_a_bool, repeated, unique_along, unique_consecutive,
    comparisons_that_are_bools, errors_that_do_not_happen,
]  # fmt: skip


def examples():
    """Among them nothing, one element, and all."""
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(4, 5, generator=generator) for _ in range(4)]
    one = -torch.ones(4, 5)
    one[2, 3] = 4
    return [*given, -given[0].abs(), one, given[1].abs() + 0.1, given[2]]


def assert_same(got, expected):
    assert type(got) is type(expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected, equal_nan=True)
        assert got.stride() == expected.stride()
    elif isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for one, other in zip(got, expected):
            assert_same(one, other)
    else:
        assert got == (expected if isinstance(expected, str) else pytest.approx(expected, rel=1e-5))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program, counts):
    compiled = cdynamo.optimize(program, fullgraph=True)
    for x in examples():
        assert_same(compiled(x), program(x))
    assert counts.graphs_compiled == 1
    assert counts.recompiles == 0


@pytest.mark.parametrize(
    "function, error",
    [
        (lambda x: x * math.log(x.sum().item()), ValueError),
        (lambda x: x + 1 / x.sum().item(), ZeroDivisionError),
        (lambda x: x + 3 % (x > 0).sum().item(), ZeroDivisionError),
        (lambda x: x + math.exp(x.abs().max().item() * 1e3), OverflowError),
        (lambda x: x + int(x.sum().item() * math.inf), OverflowError),
    ],
)
def test_errors_of_functions(function, error, counts):
    """Python's own, where it raises them; in the next call that raises none the graph goes on."""
    compiled = cdynamo.optimize(function, fullgraph=True)
    good, bad = torch.full((3,), 0.25), torch.full((3,), -0.0) if error is ZeroDivisionError else torch.full((3,), -0.9)
    for x in (good, bad, good):
        try:
            expected = function(x)
        except error as raised:
            with pytest.raises(error, match=re.escape(str(raised))) as info:
                compiled(x)
            assert info.traceback[-1].lineno == raised.__traceback__.tb_next.tb_lineno - 1
        else:
            torch.testing.assert_close(compiled(x), expected)
    assert counts.graphs_compiled == 1


def test_results_that_no_graph_holds(counts):
    """Complex numbers and ints of any size are Python's."""

    def root(x):
        return x.sum().item() ** 0.5, x + 1

    def power(x):
        return int(x.sum()) ** 40, x + 1

    for function in (root, power):
        compiled = cdynamo.optimize(function)
        for x in (torch.ones(4), -torch.ones(9), torch.ones(4)):
            assert compiled(x)[0] == function(x)[0] and type(compiled(x)[0]) is type(function(x)[0])


def test_lists_of_nothing():
    """As many rows as there are, however many that are in each call."""
    compiled = cdynamo.optimize(lambda x: ((x * 2).tolist(), x + 1))
    for rows in (3, 5, 8, 5, 0):
        assert compiled(torch.ones(rows, 0))[0] == [[]] * rows


def repeated_rows(x):
    return x.repeat_interleave((x > 0).sum(1), 0).pow(2)


def by_a_bool(x):
    return x.pow(2) * bool((x > 0).any()) + (x > 9).any().item()


def clamped(x):
    return x.pow(2).clamp(x.min().item(), x.abs().mean().item())


def filled(x):
    return x.pow(3).masked_fill(x > 0, x.min().item()) * torch.full((5,), x.max().item())


@pytest.mark.parametrize(
    "program",
    [
        clamped,
        filled,
        item,
        a_sum_of_a_mask,
        a_mask_of_rows,
        masks_in_a_row,
        writing_by_a_mask,
        adding_by_a_mask,
        where_of_one,
        routed,
        repeated_rows,
        by_a_bool,
    ],
    ids=lambda program: program.__name__,
)
def test_gradients(program, counts):
    compiled = cdynamo.optimize(program, fullgraph=True)
    for x in examples():
        if program is masks_in_a_row and not (x > 0.5).any():
            continue  # a mean of nothing
        mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        weights = torch.linspace(0.5, 1.5, program(x).numel()).reshape(program(x).shape)
        (compiled(mine) * weights).sum().backward()
        (program(theirs) * weights).sum().backward()
        torch.testing.assert_close(mine.grad, theirs.grad)
    assert counts.graphs_compiled == 1


def extreme_of_nan(x):
    y = x / 0
    low, high = y.min().item(), y.max().item()
    return [str(number) for number in (max(low, 0.5), max(0.5, low), min(low, high), min(0.0, high), abs(low))]


def negative_zeros(x):
    zero = (x[0, 0] * 0.0).item()
    return [str(number) for number in (max(zero, 0.0), max(0.0, zero), min(zero, -zero), abs(zero))]


@pytest.mark.parametrize("program", [extreme_of_nan, negative_zeros])
def test_extremes_are_pythons(program):
    compiled = cdynamo.optimize(program)
    for x in [*examples(), torch.zeros(2, 2), -torch.ones(2, 2)]:
        assert compiled(x) == program(x)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.full((2,), x.max().item() * 1e38, dtype=torch.half),
        lambda x: torch.full((2,), x.max().item() * 1e300),
        lambda x: x.masked_fill(x > 0, x.max().item() * 1e300),
        lambda x: torch.full((2,), x.clone().requires_grad_().sum()),
        lambda x: torch.zeros(x.sum()),
        lambda x: torch.zeros(x.sum().bool()),
        lambda x: torch.zeros(-(x > 0).sum() - 1),
        lambda x: x.narrow(0, x.sum(), 1),
        lambda x: torch.full((2,), x),
        lambda x: x.select(0, (x < 100).sum()),
    ],
)
def test_numbers_that_eager_refuses(program):
    compiled = cdynamo.optimize(program)
    for x in examples():
        try:
            expected = program(x)
        except Exception as error:
            with pytest.raises(type(error)):
                compiled(x)
        else:
            assert_same(compiled(x), expected)


def test_second_derivatives():
    x = torch.randn(6, 4)
    results = []
    for function in (
        cdynamo.optimize(lambda x: (x[x > 0] ** 3).sum(), fullgraph=True),
        lambda x: (x[x > 0] ** 3).sum(),
    ):
        y = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(function(y), y, create_graph=True)
        (second,) = torch.autograd.grad((gradient * torch.arange(4.0)).sum(), y)
        results.append((gradient.detach(), second))
    for got, expected in zip(*results):
        torch.testing.assert_close(got, expected)


def test_rows_and_columns_change_without_recompiling(counts):
    compiled = cdynamo.optimize(one_mask_twice, fullgraph=True, dynamic=True)
    for rows in (3, 4, 7, 2):
        x = torch.randn(rows, rows + 2)
        assert_same(compiled(x), one_mask_twice(x))
    assert counts.graphs_compiled == 1


def numpy_item(a):
    return a * a.sum().item() + float(a[0]) - int(a.max())


def numpy_mask(a):
    return a[a > 0].sum(), a[a > 0] * 2


def numpy_write(a):
    b = a * 1
    b[b > 0] = b[b > 0] * 2
    return b


@pytest.mark.parametrize("program", [numpy_item, numpy_mask, numpy_write], ids=lambda program: program.__name__)
def test_numpy(program, counts):
    compiled = cdynamo.optimize(program, fullgraph=True)
    for seed in range(4):
        a = np.random.default_rng(seed).normal(size=30)
        got, expected = compiled(a), program(a)
        for i in range(len(expected)) if isinstance(expected, tuple) else [...]:
            np.testing.assert_allclose(got[i], expected[i])
    assert counts.graphs_compiled == 1


def test_errors_that_depend_on_data(counts):
    def program(x, log, total):
        total += 1
        log.append(len(log))
        y = torch.nn.functional.dropout(x, 0.5) + torch.rand(3)
        if not (y >= 0).all():
            raise ValueError(f"negative: {int((x < 0).sum())}")
        return y.sqrt()

    def handled(x, log, total):
        try:
            return program(x, log, total)
        except ValueError as error:
            return str(error), program(-x, log, total)

    for function, fullgraph in ((program, True), (handled, False)):
        compiled = cdynamo.optimize(function, fullgraph=fullgraph)
        for seed, sign in enumerate((1, -1, 1, 1, *[-1] * 12, 1, 1)):
            results = []
            for run in (function, compiled):
                torch.manual_seed(seed)
                log, total = [], torch.zeros(())
                try:
                    result = run(sign * (torch.arange(3.0) + 2), log, total)
                except ValueError as error:
                    result = str(error)
                results.append((result, log, total, torch.rand(2)))
            assert_same(results[1], results[0])
    assert counts.calls_in_python > 0


def test_random_numbers_come_in_their_order():
    """What is read of the second is computed before what the first is for."""

    def program(x):
        first, second, third = torch.randn(3), torch.rand(4), torch.rand(2)
        n = (second > 0.5).sum().item()
        return x * first + n, torch.ones(n), third, torch.randn(2)

    compiled = cdynamo.optimize(program, fullgraph=True)
    for seed in range(4):
        results = []
        for run in (program, compiled):
            torch.manual_seed(seed)
            results.append((run(torch.ones(3)), torch.rand(1)))
        assert_same(results[1], results[0])


def test_isin(counts):
    def program(x, places):
        return (
            torch.isin(x, places),
            torch.isin(x, 2),
            torch.isin(x, places[:0], invert=True),
            torch.isin(x.float(), 0.5),
        )

    compiled = cdynamo.optimize(program, fullgraph=True)
    for n in (3, 4, 6, 0):
        x = torch.arange(2 * n).reshape(2, n) % 5
        assert_same(compiled(x, torch.tensor([1, 4])), program(x, torch.tensor([1, 4])))
    assert counts.graph_breaks == 0
    for wrong in (torch, torch.ones(2, dtype=torch.bool)):
        mine, theirs = cdynamo.optimize(lambda x: torch.isin(x, wrong)), lambda x: torch.isin(x, wrong)
        try:
            expected = theirs(x)
        except Exception as error:
            with pytest.raises(type(error)):
                mine(x)
        else:
            assert_same(mine(x), expected)


def test_multinomial(counts):
    def program(weights, many):
        chosen = torch.multinomial(weights, 1)
        return chosen, weights.multinomial(num_samples=many), torch.multinomial(weights[0], 1, replacement=True)

    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for rows, columns in ((1, 5), (3, 50), (40, 7)):
            compiled = cdynamo.optimize(program, fullgraph=True, dynamic=False)
            weights = torch.rand(rows, columns).to(dtype)
            weights[:, 2] = 0
            results = []
            for run in (program, compiled):
                torch.manual_seed(rows)
                results.append((run(weights, 4), torch.rand(1)))
            assert_same(results[1], results[0])
    assert counts.graph_breaks == counts.calls_in_python == 0
    for wrong in (torch.tensor([[1.0, -1, 2, 3, 4]]), torch.zeros(1, 5), torch.full((1, 5), float("nan"))):
        with pytest.raises(RuntimeError, match="probability tensor|sum of probabilities"):
            compiled(wrong, 4)


def test_distributions_in_one_graph(counts, monkeypatch):
    from torch import distributions

    # torch.compile turns it off.
    monkeypatch.setattr(distributions.Distribution, "_validate_args", True)

    def program(logits, value, loc):
        choice = distributions.Categorical(logits=logits)
        action = choice.sample()
        normal = distributions.Normal(loc, torch.ones_like(loc))
        point = normal.rsample()
        coin = distributions.Bernoulli(probs=torch.sigmoid(loc))
        both = distributions.Independent(normal, 1)
        divergence = distributions.kl_divergence(normal, distributions.Normal(0.0, 1.0))
        return (
            action, choice.log_prob(action), choice.entropy(), point, normal.log_prob(value), coin.log_prob(coin.sample()),
            both.log_prob(value), divergence,
        )  # fmt: skip

    compiled = cdynamo.optimize(program, fullgraph=True)
    for rows in (2, 2, 5):
        torch.manual_seed(rows)
        given = torch.randn(rows, 4), torch.randn(rows, 3), torch.randn(rows, 3)
        results = []
        for run in (program, compiled):
            torch.manual_seed(1)
            results.append((run(*given), torch.rand(1)))
        assert_same(results[1], results[0])
    assert counts.calls_in_python == 0
    with pytest.raises(ValueError, match="Expected parameter logits"):
        compiled(torch.full((2, 4), float("nan")), torch.zeros(2, 3), torch.zeros(2, 3))


def test_a_branch_breaks_there_and_nowhere_else(counts):
    def program(x):
        n = (x > 0).sum().item()
        y = x * n
        if n > 10:
            y = y.flatten()[1:]
        return y * 2

    compiled = cdynamo.optimize(program)
    for x in examples():
        assert_same(compiled(x), program(x))
    assert counts.graph_breaks == 1


@pytest.mark.parametrize(
    ("places", "weights"),
    [
        (torch.tensor([1, 2, 1]), torch.ones(2)),
        (torch.tensor([1, 2, 1]), torch.ones(3, 1)),
        (torch.tensor([1.0, 2.0, 1.0]), None),
        (torch.tensor([1.0, 2.0, 1.0], dtype=torch.float16), None),
        (torch.tensor([1, -2, 1]), None),
    ],
    ids=["fewer weights", "weights in a column", "floats", "half floats", "negative"],
)
def test_what_bincount_refuses(places, weights):
    with pytest.raises(RuntimeError) as expected:
        torch.bincount(places, weights)
    compiled = cdynamo.optimize(lambda places, weights: torch.bincount(places + 0, weights) + 1)
    with pytest.raises(type(expected.value)) as got:
        compiled(places, weights)
    assert str(got.value) == str(expected.value)


def test_what_eager_refuses_raises_its_error():
    def program(x, y):
        return x[x > 0] + y

    compiled = cdynamo.optimize(program, fullgraph=True)
    x = torch.tensor([1.0, -1.0, 2.0, 3.0, -2.0])
    assert_same(compiled(x, torch.ones(3)), program(x, torch.ones(3)))
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        compiled(x.abs(), torch.ones(3))
    with pytest.raises(IndexError):
        cdynamo.optimize(lambda x: x[int(x.sum() * 10)], fullgraph=True)(x)
    with pytest.raises(AssertionError, match="too many"):
        cdynamo.optimize(failing_assertion, fullgraph=True)(x)


def test_nothing_is_written_where_a_number_does_not_fit():
    def program(x, y):
        y += 1
        return x[: int(y.sum())] * 2, x[int(y[0])]

    compiled = cdynamo.optimize(program, fullgraph=True)
    x = torch.arange(6.0)
    for start in (1.0, 0.0, 2.0, -4.0):
        mine, theirs = torch.full((2,), start), torch.full((2,), start)
        assert_same(compiled(x, mine), program(x, theirs))
        assert_same(mine, theirs)


def test_numbers_that_keep_being_unexpected_are_read_in_python(counts):
    """Here the strides of the result are other ones."""
    compiled = cdynamo.optimize(a_mask_of_columns)
    x = -torch.ones(4, 5)
    x[:, 2] = 3
    for _ in range(20):
        assert_same(compiled(x), a_mask_of_columns(x))
    assert counts.calls_in_python <= 8
    for x in examples():
        assert_same(compiled(x), a_mask_of_columns(x))


def test_numbers_beyond_what_a_float_holds():
    x = torch.tensor([2**60 + 1, 3])
    compiled = cdynamo.optimize(lambda x: (x.max().item() + 1, x.min().item()), fullgraph=True)
    assert compiled(x) == (2**60 + 2, 3)
    assert compiled(x // 2**20) == (2**40 + 1, 0)
    with pytest.raises(ValueError):
        cdynamo.optimize(lambda x: int(x.sum()), fullgraph=True)(torch.tensor([float("nan")]))
    with pytest.raises(OverflowError):
        cdynamo.optimize(lambda x: int(x.sum()), fullgraph=True)(torch.tensor([float("inf")]))


def test_in_a_module_under_training(counts):
    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = torch.nn.Linear(5, 8), torch.nn.Linear(8, 1)

        def forward(self, x):
            hidden = torch.relu(self.inner(x))
            kept = hidden[hidden.sum(1) > hidden.sum(1).mean()]
            return self.outer(kept).mean() * len(kept)

    torch.manual_seed(0)
    model = Masked()
    compiled = cdynamo.optimize(model, fullgraph=True)
    for _ in range(4):
        x = torch.randn(16, 5)
        gradients = []
        for run in (model, compiled):
            model.zero_grad()
            run(x).backward()
            gradients.append([p.grad.clone() for p in model.parameters()])
        for got, expected in zip(*gradients):
            torch.testing.assert_close(got, expected)
    assert counts.graphs_compiled == 1


def test_a_method_that_a_break_leaves_on_the_stack_is_the_tensor_s():
    """`x.nonzero` is looked up before its argument breaks the graph."""
    x = torch.tensor([1.0, 0.0, 2.0])
    compiled = cdynamo.optimize(lambda x: x.nonzero(as_tuple=bool(x.sum() > 1))[0] + 1)
    assert torch.equal(compiled(x), torch.tensor([1, 3]))


CONSTANTS_OF_OPERATORS = {
    "linspace": lambda x, p: torch.linspace(0, p, 5),
    "pad": lambda x, p: torch.nn.functional.pad(x, (1, 1), value=p),
    "leaky_relu": lambda x, p: torch.nn.functional.leaky_relu(x - 1, p),
    "elu": lambda x, p: torch.nn.functional.elu(x - 1, p),
    "layer_norm": lambda x, p: torch.nn.functional.layer_norm(x, x.shape[-1:], eps=p),
    "huber_loss": lambda x, p: torch.nn.functional.huber_loss(x, x * 2, delta=p),
    "threshold": lambda x, p: torch.nn.functional.threshold(x, p, 0.0),
    "quantile": lambda x, p: torch.quantile(x, p / 4),
    "kthvalue": lambda x, p: x.reshape(-1).kthvalue(int(p * 4)).values,
}


@pytest.mark.parametrize("name", CONSTANTS_OF_OPERATORS)
def test_an_operator_takes_a_number_that_is_read(name):
    def fn(x, y):
        return CONSTANTS_OF_OPERATORS[name](x, y.max().item()) * 2

    cdynamo.reset()
    compiled = cdynamo.optimize(fn, fullgraph=True)
    before = cdynamo.counters()["graphs_compiled"]
    for p in (0.5, 0.75, 1.0):
        y = torch.tensor([p, 0.1])
        results = []
        for run in (compiled, fn):
            x = torch.tensor([[0.5, 1.5, -2.0], [0.25, 3.0, 1.0]], requires_grad=True)
            result = run(x, y)
            gradient = torch.autograd.grad(result.sum(), x)[0] if result.requires_grad else None
            results.append((result.detach(), gradient))
        torch.testing.assert_close(results[0], results[1])
    assert cdynamo.counters()["graphs_compiled"] - before == 1


def test_errors_of_operators_that_take_a_number_that_is_read():
    def fn(x, y):
        return torch.quantile(x, y.item())

    compiled = cdynamo.optimize(fn)
    x = torch.arange(4.0)
    torch.testing.assert_close(compiled(x, torch.tensor(0.5)), fn(x, torch.tensor(0.5)))
    with pytest.raises(RuntimeError, match="q must be in the range"):
        compiled(x, torch.tensor(1.5))
    torch.testing.assert_close(compiled(x, torch.tensor(0.25)), fn(x, torch.tensor(0.25)))


def test_is_integer_of_a_number_that_is_read():
    def fn(x):
        return x.sum().item().is_integer(), x + 1

    compiled = cdynamo.optimize(fn, fullgraph=True)
    for number in (2.0, 2.5, -3.0, 0.0, math.inf, -math.inf, math.nan, 1e30):
        got, expected = compiled(torch.tensor([number])), fn(torch.tensor([number]))
        assert got[0] is expected[0]
