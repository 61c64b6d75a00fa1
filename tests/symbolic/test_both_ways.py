"""Branches on data whose both ways are compiled: one graph, and whatever way the program goes, its results, objects and writes."""

import pytest

import cdynamo

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

UP, DOWN = torch.arange(1.0, 7), -torch.arange(1.0, 7)


def if_else(x):
    return x + 1 if x.sum() > 0 else x - 1


def returns_in_both(x):
    y = x * 2
    if y.max() > 3:
        return y / y.max()
    else:
        return y.clamp(min=-4)


def early_return(x):
    y = x.sin()
    if y[0] < 0:
        return y * 3
    z = y.cos() + x
    return z * 2


def assigns_some(x):
    y, z = x * 2, x + 1
    if (y > 4).any():
        y = y.clamp(max=4)
        w = y.sum()
        z = z + w
    return y.sum() + z


def reads_an_item(x):
    norm = x.norm().item()
    y = x * 3
    if norm > 100 or x[0].item() > 0:
        y = y * 0.5
    return y + 1


def nested(x):
    y = x.exp()
    if y.sum() > 10:
        if y.mean() > 30:
            y = y.log()
        else:
            y = y.sqrt()
        y = y + 1
    elif y[0] > 0.3:
        y = y * 7
    return y * 2


def and_or_not(x):
    y = x * 2
    if x[0] > 0 and not x[1] < 0 or x[2] > 100:
        y = y - 5
    return y + x


def in_a_loop(x):
    for i in range(4):
        if x[i] < 0:
            x = x * -0.5
        else:
            x = x + 0.1
    return x


def continues(x):
    y = x * 1
    for i in range(3):
        if x[i] < 0:
            continue
        y = y + i
    return y


def of_tuples(x):
    a, b = (x + 1, x * 2) if x.min() < 0 else (x * 3, x + 4)
    return a - b, a


def on_the_stack(x):
    return torch.stack([x + 1, x * 2 if x.any() and x.sum() > 0 else x * 3])


def same_pair_twice(x):
    y = x + 1
    z = y
    if x.sum() > 0:
        y = z = x * 2
    return y.sum() + z


def guarded_division(x):
    total = x.sum()
    scaled = x * 1
    if total > 0:
        scaled = x / total
    return scaled * 2


def no_graph_in_one_way(x):
    y = x * 2
    if x.isnan().any():
        pass
    return y


def helper(x):
    if x.mean() > 0:
        return F.relu(x)
    return F.gelu(x)


def in_a_call(x):
    return helper(x) + helper(-x)


def with_handlers(x):
    try:
        y = x * 2
        if x.sum() > 0:
            y = y + 1
    finally:
        x = x + 1
    return x + y


WHOLE = [
    *(if_else, returns_in_both, early_return, assigns_some, nested, and_or_not, in_a_loop, continues),
    pytest.param(reads_an_item, marks=pytest.mark.native),
    *(of_tuples, on_the_stack, same_pair_twice, guarded_division, no_graph_in_one_way, in_a_call, with_handlers),
]


@pytest.mark.parametrize("program", WHOLE, ids=lambda program: getattr(program, "__name__", None))
def test_one_graph_goes_both_ways(program, counts):
    fast = cdynamo.optimize(program, fullgraph=True)
    for x in (UP, DOWN, UP / 10, torch.tensor([1.0, -1, 2, -2, 3, -3]), DOWN + 3.5):
        torch.testing.assert_close(fast(x), program(x), rtol=1e-5, atol=1e-6)
    assert counts.frames_compiled == 1 and counts.graph_breaks == 0


STEPS, LAST = torch.arange(10.0), torch.tensor(0.5)


def previous_step(x, t):
    before = t - 4
    at = STEPS[before] if before >= 0 else LAST
    return x * at


def rows_of_a_nested_way(x, t):
    if t > 0:
        if t < 6:
            y = x[t, None] + x.view(2, 3)[:, t % 3].sum()
        else:
            y = x[:1] * 2
    else:
        y = x[(t + 5).clamp(0, 1).repeat(1)]
    return y


@pytest.mark.native
@pytest.mark.parametrize("program", [previous_step, rows_of_a_nested_way])
def test_a_read_by_an_index_that_fits_one_way_alone(program, counts):
    fast = cdynamo.optimize(program, fullgraph=True)
    for t in (9, 0, 5, -40, 4, 8, -1):
        torch.testing.assert_close(fast(UP, torch.tensor(t)), program(UP, torch.tensor(t)))
    assert counts.frames_compiled == 1 and counts.graph_breaks == 0
    assert counts.calls_in_python == 0


@pytest.mark.native
def test_an_index_out_of_range_in_the_way_that_is_taken():
    fast = cdynamo.optimize(previous_step, fullgraph=True)
    assert torch.equal(fast(UP, torch.tensor(2)), UP * 0.5)
    with pytest.raises(IndexError) as expected:
        previous_step(UP, torch.tensor(14))
    with pytest.raises(IndexError, match=str(expected.value)[:20]):
        fast(UP, torch.tensor(14))


def test_nan_and_infinity_of_the_way_that_is_not_taken():
    fast = cdynamo.optimize(guarded_division, fullgraph=True)
    zero = torch.tensor([1.0, -1.0])
    torch.testing.assert_close(fast(zero), guarded_division(zero))
    assert fast(torch.tensor([float("nan")])).isnan().all()


# What eager could tell apart: a break at the branch, and eager's outcome.


def gives_its_argument(x):
    if x.sum() > 0:
        x = x * 2
    return x


def gives_its_argument_after_two_branches(x):
    for limit in (0, 40):
        if x.sum() > limit:
            x = x * 2
    return x


def gives_one_object_of_two_branches(x):
    first = x + 1
    second = first if x.sum() > 0 else first * 2
    third = first if x.sum() > -1 else first * 3
    return second, third


def gives_one_object_twice(x):
    first = x + 1
    second = first
    if x.sum() > 0:
        second = x * 2
    return first, second


def writes_later(x):
    first = x + 1
    second = first
    if x.sum() > 0:
        second = x * 2
    second.add_(1)
    return first * 1, second * 1


def writes_to_the_older_one(x):
    first = x + 1
    second = first
    if x.sum() > 0:
        second = x * 2
    first.mul_(10)
    return second * 1


def writes_to_a_view(x):
    first = x + 1
    second = first[1:]
    if x.sum() > 0:
        second = x[1:] * 2
    second.zero_()
    return first * 1


def asks_which(x):
    first = x + 1
    second = first
    if x.sum() > 0:
        second = x * 2
    return (first * 2) if second is first else (first * 3)


def two_names_of_one(x):
    a, b = x * 2, x * 3
    if x.sum() > 0:
        a = b = x + 1
    a.add_(5)
    return b * 1


def writes_in_a_way(x):
    y = x * 2
    if x.sum() > 0:
        y.add_(3)
    return y


def changes_a_list(x):
    out = []
    if x.sum() > 0:
        out.append(x * 2)
    return out


def takes_an_item_of_an_iterator(x):
    numbers = iter([1, 2, 3])
    y = x * 1
    if x.sum() > 0:
        y = y * next(numbers)
    return y * next(numbers)


def draws(x):
    y = x * 2
    if x.sum() > 0:
        y = y + torch.rand(6)
    return y + torch.rand(6)


def prints(x):
    y = x * 2
    if x.sum() > 0:
        print("up", end="")
    return y


def other_objects(x):
    name = "up" if x.sum() > 0 else "down"
    return name, x * 2


def other_sizes(x):
    y = x[:2] * 2 if x.sum() > 0 else x[2:] * 2
    return y + 1


def one_way_assigns(x):
    if x.sum() > 0:
        y = x * 2
    try:
        return y
    except NameError:
        return x * 3


def may_raise(x):
    y, i = x * 2, (x[0] * 2).long()
    if i >= 0:
        y = y + x[i.clamp(max=50)]
    return y


def loops(x):
    y = x * 1
    while y.sum() > 5:
        y = y * 0.5
    return y


def raises_in_a_handler(x):
    try:
        if x.sum() > 0:
            y = x * {}["no"]
        else:
            y = x * 2
    except KeyError:
        y = x * 3
    return y


def attribute_of_a_way(x):
    y = x * 2
    if x.sum() > 0:
        y.name = "up"
    return y, hasattr(y, "name")


def multiplies(x):
    y = x * 2
    if x.sum() > 0:
        y = torch.outer(y, y) @ y
    return y


BROKEN = [
    *(gives_its_argument, gives_its_argument_after_two_branches, gives_one_object_of_two_branches),
    *(gives_one_object_twice, writes_later, writes_to_the_older_one, writes_to_a_view, asks_which),
    *(two_names_of_one, writes_in_a_way, changes_a_list, takes_an_item_of_an_iterator, draws, prints, other_objects),
    *(other_sizes, one_way_assigns, may_raise, loops, raises_in_a_handler, attribute_of_a_way, multiplies),
]


def outcome(program, x, capsys):
    torch.manual_seed(0)
    x = x.clone()
    try:
        result = program(x)
    except Exception as error:
        result = type(error)
    same = [a is b for a in (x, *flat(result)) for b in flat(result)]
    return result, x, same, capsys.readouterr().out


def flat(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("program", BROKEN, ids=lambda program: program.__name__)
def test_what_eager_could_tell_apart(program, capsys):
    fast = cdynamo.optimize(program)
    for x in (UP, DOWN, DOWN, UP):
        expected, got = outcome(program, x, capsys), outcome(fast, x, capsys)
        torch.testing.assert_close(got[:2], expected[:2]) if torch.is_tensor(expected[0]) else None
        assert str(got) == str(expected)


# ---- gradients


def scales(x, w):
    y = x * w
    if x.sum() > 0:
        y = y / x.sum()
    return y.sin()


def log_or_nothing(x, w):
    y = x * w
    z = y.log() if y.sum() > 0 else y * 0
    return z + y


def nested_gradients(x, w):
    y = x * w
    if y.sum() > 0:
        z = y.log() if y.min() > 0.5 else y.sqrt()
        z = z * 2
    else:
        z = (-y).sqrt()
    return z


def gradients_of(run, data):
    x, w = data.clone().requires_grad_(), torch.full((6,), 0.5, requires_grad=True)
    result = run(x, w)
    (result * torch.arange(6.0)).sum().backward()
    return result.detach(), x.grad, w.grad


@pytest.mark.native
@pytest.mark.parametrize("program", [scales, log_or_nothing, nested_gradients], ids=lambda program: program.__name__)
def test_gradients_flow_through_the_way_that_is_taken(program, counts):
    compiled = cdynamo.optimize(program, fullgraph=True)
    for data in (UP, DOWN, UP * 0, UP + 5):
        torch.testing.assert_close(gradients_of(compiled, data), gradients_of(program, data), equal_nan=True)
    assert counts.graphs_compiled == 1


def reads_other_tensors(x, w):
    return x * w if x.sum() > 0 else x * 2


def gives_a_leaf(x, w):
    if x.sum() > 0:
        x = x * 2
    return x if x.is_leaf else x * 3


def writes_to_its_own(x, w):
    y = x * w
    if y.sum() > 0:
        z = torch.zeros(6)
        z[:3] = y[:3]
    else:
        z = y * 2
    return z


def hooks(x, w):
    y = x * w
    z = y
    if y.sum() > 0:
        z = y * 2
    z.register_hook(lambda grad: grad * 10)
    return z * y


@pytest.mark.parametrize(
    "program",
    [scales, reads_other_tensors, gives_a_leaf, writes_to_its_own, hooks],
    ids=lambda program: program.__name__,
)
def test_gradients_that_show_which_way_was_taken(program):
    compiled = cdynamo.optimize(program)
    for data in (UP, DOWN, UP * 2):
        got, expected = gradients_of(compiled, data), gradients_of(program, data)
        assert [tensor is None for tensor in got] == [tensor is None for tensor in expected]
        torch.testing.assert_close([g for g in got if g is not None], [e for e in expected if e is not None])


def test_a_module_and_its_attributes():
    class Gate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(6, 6)
            self.scale = 3.0

        def forward(self, x):
            y = self.linear(x)
            if torch.isinf(y).any() or y.abs().max() > self.scale:
                y = torch.clamp(y, -self.scale, self.scale)
            return y

    model = Gate().eval()
    fast = cdynamo.optimize(model, fullgraph=True)
    with torch.no_grad():
        for x in (UP, UP * 100, UP / 0):
            torch.testing.assert_close(fast(x), model(x), equal_nan=True)


def test_a_branch_that_a_transform_refuses():
    def program(x):
        return torch.func.vmap(lambda row: row + 1 if row.sum() > 0 else row - 1)(x)

    x = torch.randn(3, 4)
    with pytest.raises(RuntimeError, match="data-dependent control flow"):
        program(x)
    with pytest.raises(RuntimeError, match="data-dependent control flow"):
        cdynamo.optimize(program)(x)


@pytest.mark.native
def test_comparisons_of_numbers_that_are_read(counts):
    def program(x):
        total, count = x.sum().item(), (x > 0).sum().item()
        y = x * 2
        if total > 3:
            y = y + total
        if count <= 2:
            y = y * count
        return y, total > 3, count == 6

    fast = cdynamo.optimize(program, fullgraph=True)
    for x in (UP, DOWN, UP - 4, UP):
        expected, got = program(x), fast(x)
        torch.testing.assert_close(got[0], expected[0])
        assert got[1:] == expected[1:] and type(got[1]) is bool and type(got[2]) is bool
    assert counts.frames_compiled == 1


@pytest.mark.native
def test_floats_are_compared_as_python_does():
    def program(x):
        value = x.item()
        return [value < 1, value <= 2**53, value > 2**60 + 1, value == 0.1, value != value, 1 < value, value >= True]

    fast = cdynamo.optimize(program)
    numbers = [1.0, float(2**53), float(2**60), float(2**60) * 1.5, 0.1, float("nan"), -0.0]
    for x in torch.tensor(numbers, dtype=torch.float64):
        assert fast(x) == program(x)


def test_a_way_that_calls_the_library_breaks_the_graph():
    def solved(x):
        m = x[:4].reshape(2, 2) + torch.eye(2)
        if x.sum() > 0:
            m = torch.linalg.cholesky(m @ m.T)
        return m * 2

    compiled = cdynamo.optimize(solved)
    for x in (UP, DOWN, UP):
        assert torch.allclose(compiled(x), solved(x))
    with cdynamo._explain.listening() as explanation:
        cdynamo.optimize(solved)(UP)
    assert "inside cdynamo" not in str(explanation)


def test_a_way_that_is_given_up_where_a_gradient_is_first_asked_for():
    """Both branches read what requires grad, which a backend in Python has no gates for."""

    def f(x, y):
        if x.sum():
            return [y.sum(0), y.float() + y.float()]
        return [y * 2]

    compiled = cdynamo.optimize(f)
    for sign in (1, 0, -1):
        x = (torch.ones(3, 3) * sign).requires_grad_()
        y = torch.ones(1, dtype=torch.float64, requires_grad=True)
        for got, expected in zip(compiled(x, y), f(x, y), strict=True):
            assert torch.equal(got, expected)
            assert got.requires_grad


def test_a_way_that_takes_back_that_a_tensor_requires_grad():
    """That is no value that a choice is made between."""

    def f(x):
        w = torch.nn.Parameter(torch.ones(2))
        if x.sum() > 100:
            w.requires_grad_(False)
        return w

    compiled = cdynamo.optimize(f)
    for x in (torch.ones(3), torch.full((3,), 100.0), torch.ones(3)):
        assert compiled(x).requires_grad == f(x).requires_grad
