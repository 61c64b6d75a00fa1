"""An index that is out of range is eager's error also where what was looked up is overwritten, or only its sizes are read."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")

ROWS = torch.tensor([0, 1])
LOOKUPS = {
    "indexed": lambda y: y[[0, 1]],
    "selected": lambda y: y.index_select(0, ROWS),
    "gathered": lambda y: y.gather(0, ROWS[:, None]),
    "taken": lambda y: y.take(ROWS * 3),
    "embedded": lambda y: torch.nn.functional.embedding(ROWS, y),
}
USES = {
    "sizes": lambda a, y: torch.ones_like(a),
    "shape": lambda a, y: torch.zeros(a.shape),
    "overwritten": lambda a, y: a.copy_(y.flatten()[0]),
    "written, then overwritten": lambda a, y: (a.add_(1), a.fill_(2))[1],
    "a part is overwritten": lambda a, y: (a[0].zero_(), a[1].zero_(), a)[2],
    "times nothing": lambda a, y: a[:0].sum() + y.sum(),
    "a part": lambda a, y: a[:1].sum() + y.sum(),
    "a part of what is computed": lambda a, y: (a * 2 + 1).flatten()[0] + y.sum(),
    "a part of a sum": lambda a, y: a.reshape(2, -1).sum(1)[0] + y.sum(),
    "nobody": lambda a, y: y + 1,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("lookup", LOOKUPS)
@pytest.mark.parametrize("trains", [False, True])
def test_an_index_out_of_range(lookup, use, trains):
    def f(y):
        return USES[use](LOOKUPS[lookup](y * 1), y)

    def run(f, rows):
        y = torch.arange(3.0 * rows).reshape(rows, 3).requires_grad_(trains)
        try:
            result = f(y)
        except (IndexError, RuntimeError) as error:
            return type(error), str(error)
        return result.tolist(), result.requires_grad

    compiled = cdynamo.optimize(f)
    for rows in (2, 1, 3, 2):
        assert run(compiled, rows) == run(f, rows)


WRITES = {
    "items": lambda y, i, row: y.__setitem__(i, row),
    "a list of places": lambda y, i, row: y.__setitem__([0, 1], row),
    "a range": lambda y, i, row: y.__setitem__(range(2), row),
    "index_add_": lambda y, i, row: y.index_add_(0, i, row.expand(2, 3)),
    "index_copy_": lambda y, i, row: y.index_copy_(0, i, row.expand(2, 3)),
    "index_fill_": lambda y, i, row: y.index_fill_(0, i, 2.0),
    "scatter_": lambda y, i, row: y.scatter_(0, i[:, None], 3.0),
    "scatter_add_": lambda y, i, row: y.scatter_add_(0, i[:, None], row[None]),
    "put_": lambda y, i, row: y.put_(i * 3, row[:2]),
}
LEFT = {
    "nothing": lambda y: None,
    "all": lambda y: y,
    "a part": lambda y: y[:1],
    "what overwrites it": lambda y: y.fill_(3),
}


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_out_of_range(write, left):
    def f(x, places):
        y = x * 2
        WRITES[write](y, places, x[0])
        return LEFT[left](y)

    def run(f, rows):
        try:
            result = f(torch.arange(3.0 * rows).reshape(rows, 3), torch.tensor([0, 1]))
        except (IndexError, RuntimeError) as error:
            return type(error), str(error)
        return result if result is None else result.tolist()

    compiled = cdynamo.optimize(f)
    for rows in (2, 1, 3, 2):
        assert run(compiled, rows) == run(f, rows)


def test_a_difference_of_nothing_is_the_tensor():
    def f(x):
        return x.diff() is x, x.diff(n=2, dim=0) is x, x.diff(n=0) is x, x.diff(prepend=x) is x, x.diff()

    for shape in ((3, 0), (0, 3), (0,), (2, 2)):
        x = torch.ones(shape)
        *same, result = cdynamo.optimize(f)(x)
        *expected, plain = f(x)
        assert same == expected and (result is x) == (plain is x) and torch.equal(result, plain)


def test_a_tensor_of_integers_with_a_history_is_left_to_eager():
    def f(x, w):
        x[...] = w
        return x.requires_grad

    def g(x):
        return x + 1

    def run(f, g):
        x = torch.ones(2, 3, dtype=torch.int64)
        first = f(x, torch.ones(()).requires_grad_())
        try:
            return first, g(x).requires_grad
        except RuntimeError as error:
            return first, str(error)

    def made(w):
        x = torch.zeros(3, dtype=torch.int64)
        x.fill_(w)
        return x.requires_grad

    assert run(cdynamo.optimize(f), cdynamo.optimize(g)) == run(f, g)
    w = torch.ones(()).requires_grad_()
    assert cdynamo.optimize(made)(w) == made(w)


LOSSES = {
    "cross_entropy": torch.nn.functional.cross_entropy,
    "smoothed": lambda x, t: torch.nn.functional.cross_entropy(x, t, ignore_index=0, label_smoothing=0.5),
    "nll_loss": torch.nn.functional.nll_loss,
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("trains", [False, True])
def test_a_class_that_there_is_not(loss, trains):
    functions = (
        lambda x, t: LOSSES[loss](x, t).dim(),
        lambda x, t: LOSSES[loss](x, t).shape[0],
        lambda x, t: LOSSES[loss](x[:0], t[:0]).isnan(),
    )

    def run(f, x, target):
        try:
            return f(x, target)
        except (IndexError, ValueError) as error:
            return type(error), str(error)

    for f in functions:
        compiled = cdynamo.optimize(f)
        for classes in (2, 3, 2):
            x = torch.ones(3, classes).requires_grad_(trains)
            assert run(compiled, x, torch.arange(3)) == run(f, x, torch.arange(3))


CHECKED = {
    "probabilities": lambda x: torch.nn.functional.binary_cross_entropy(x, torch.ones(3), reduction="none"),
    "classes": lambda x: torch.nn.functional.one_hot(x.long(), 2),
    "draws": lambda x: torch.bernoulli(x),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("checked", CHECKED)
def test_an_element_out_of_range(checked, use):
    def f(x, y):
        y.copy_(USES[use](CHECKED[checked](x).float(), y).sum())
        return y

    def run(f, x):
        y = torch.ones(3, 3)
        torch.manual_seed(0)
        try:
            f(x, y)
        except RuntimeError as error:
            entry = error.__traceback__.tb_next
            return type(error), str(error), entry.tb_frame.f_code.co_name, y.tolist()
        return y.tolist()

    compiled = cdynamo.optimize(f)
    for x in torch.tensor([0.0, 1.0, 1.0]), torch.tensor([0.0, -1.0, 1.0]), torch.tensor([1.0, 0.0, 0.0]):
        assert run(compiled, x) == run(f, x)
