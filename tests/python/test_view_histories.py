"""What PyTorch's autograd knows of a view that a compiled function has made is what it knows of eager's: the mode that it was made
in, whether others were made with it, whether its storage was written to since, and whose count of writes it shares."""

from __future__ import annotations

import re

import pytest

import cdynamo

torch = pytest.importorskip("torch")

VIEWS = {
    "item": lambda x: x[0],
    "slice": lambda x: x[1:],
    "transposed": lambda x: x.T,
    "unsqueezed": lambda x: x.unsqueeze(0),
    "view": lambda x: x.view(-1),
    "reshaped": lambda x: x.reshape(3, 2),
    "expanded": lambda x: x[:1].expand(2, 3),
    "unfolded": lambda x: x.unfold(0, 1, 1),
    "at strides": lambda x: x.as_strided((2, 2), (3, 1)),
    "alias": lambda x: x[...],
    "of a view": lambda x: x.T[1:].unsqueeze(0),
    "unbind": lambda x: x.unbind(0)[1],
    "chunk": lambda x: x.chunk(2)[0],
    "split": lambda x: x.split([1, 1])[1],
    "of one of several": lambda x: x.unbind(0)[1][1:],
    "one of several numbers": lambda x: x.unbind(0)[1].unbind(0)[0],
    "detached": lambda x: x.detach(),
    "of a detached": lambda x: x.detach()[0],
    "detached of a view": lambda x: x[0].detach(),
    "data": lambda x: x.data,
    "of data": lambda x: x.data.unbind(0)[0],
    "data of a view": lambda x: x[1:].data,
    "broadcast": lambda x: torch.broadcast_tensors(x, torch.ones(3, 1, 1))[0],
    "broadcast second": lambda x: torch.broadcast_tensors(torch.ones(3, 1, 1), x)[1],
}
BASES = {
    "leaf": lambda: torch.arange(6.0).reshape(2, 3).requires_grad_(),
    "no history": lambda: torch.arange(6.0).reshape(2, 3),
    "computed": lambda: torch.arange(6.0).reshape(2, 3).requires_grad_() * 2,
    "integers": lambda: torch.arange(6).reshape(2, 3),
}


def test_requires_grad_of_a_view_made_under_no_grad():
    """PyTorch asks the tensor that both are views of."""

    def f(x):
        with torch.no_grad():
            return x[0].requires_grad, (x * 2).requires_grad, (x * 2)[0].requires_grad

    for make in (BASES["leaf"], lambda: torch.ones(2, 3).requires_grad_(), BASES["computed"], BASES["no history"]):
        assert cdynamo.optimize(f)(make()) == f(make())


def no_grad(view, write=None):
    def f(x):
        with torch.no_grad():
            v = view(x)
            if write:
                write(x, v)
        return v

    return f


def enable_grad(view, write=None):
    def f(x):
        with torch.enable_grad():
            v = view(x)
        if write:
            with torch.no_grad():
                write(x, v)
        return v

    return f


def of_result(mode):
    """The same of what the graph has made."""

    def made(view, write=None):
        def f(x):
            with torch.enable_grad():
                y = x * 2
            return mode(view, write)(y), y

        return f

    return made


MODES = {
    "no_grad": no_grad,
    "grad": enable_grad,
    "no_grad, of a result": of_result(no_grad),
    "grad, of a result": of_result(enable_grad),
}


def outcome(ask):
    try:
        return ask()
    except RuntimeError as error:
        return re.sub(r"Output \d+ of \w+", "Output", str(error))


def asked(v, x):
    """What it is and what PyTorch lets one do with it; the writes last."""
    w = torch.ones(()).requires_grad_()

    def use():
        return (v * w).requires_grad, [g is None for g in torch.autograd.grad((v * v).sum(), [x, v], allow_unused=True)]

    def note():
        v.mul_(w)
        return v.requires_grad, v.grad_fn is None, x.requires_grad

    yield "requires grad", v.requires_grad
    yield "leaf", outcome(lambda: v.is_leaf)
    yield "history", outcome(lambda: v.grad_fn is None)
    yield "values", v.tolist(), v.shape, v.stride()
    yield "used", outcome(use)
    yield "written", outcome(lambda: v.add_(1).requires_grad)
    yield "written with a history", outcome(note)
    yield "after", outcome(lambda: (v.grad_fn is None, x.requires_grad, x.grad_fn is None))


def run(function, x, mode):
    before = x._version
    with torch.set_grad_enabled(mode):
        result = function(x)
        v, y = result if isinstance(result, tuple) else (result, x)
    written = x._version - before
    seen = list(asked(v, y))
    before = v._version
    y.detach().add_(1)
    return written, seen, v._version - before


def compare(function, base, modes=(True, False)):
    compiled = cdynamo.optimize(function)
    for mode in modes:
        assert run(compiled, base(), mode) == run(function, base(), mode)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_what_eagers_is(view, mode, base):
    compare(MODES[mode](VIEWS[view]), BASES[base])


WRITES = {
    "the base": lambda x, v: x.mul_(2),
    "the view": lambda x, v: v.zero_() if 0 not in v.stride() else x.zero_(),
    "another view": lambda x, v: x[0].add_(1),
    "an item": lambda x, v: x.__setitem__((slice(None), 0), 1),
    "data": lambda x, v: x.data.add_(1),
    "data of a part": lambda x, v: x[0].data.add_(1),
    "a part of data": lambda x, v: x.data[0].add_(1),
    "a detached": lambda x, v: x.detach().add_(1),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("view", ["item", "of one of several", "unbind", "transposed", "data", "of data", "detached"])
@pytest.mark.parametrize("base", ["leaf", "no history"])
def test_a_view_whose_storage_was_written_to(view, mode, write, base):
    compare(MODES[mode](VIEWS[view], WRITES[write]), BASES[base])


def used_later(use):
    def f(x, w):
        with torch.no_grad():
            v = x[0]
        return use(v, w), x

    return f


USES = {
    "read": lambda v, w: v * w,
    "read by the way": lambda v, w: v.sum(),
    "viewed": lambda v, w: v[1:],
    "written": lambda v, w: v.add_(1),
    "written with a history": lambda v, w: v.mul_(w),
    "an item written": lambda v, w: v.__setitem__(0, 3),
    "detached": lambda v, w: v.detach(),
    "its history": lambda v, w: v.grad_fn,
    "a leaf": lambda v, w: v.is_leaf,
    "its gradient": lambda v, w: v.grad,
    "compared": lambda v, w: v > 1,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("base", ["leaf", "no history"])
def test_a_view_of_no_grad_in_grad_mode(use, base):
    function = used_later(USES[use])

    def all_of(f):
        x, w = BASES[base](), torch.ones(3).requires_grad_()
        try:
            result, _ = f(x, w)
        except RuntimeError as error:
            return str(error), x.tolist(), x._version
        if not isinstance(result, torch.Tensor):
            return result
        leaves = [t for t in (x, w) if t.requires_grad]
        gradients = result.requires_grad and torch.autograd.grad(result.sum(), leaves, allow_unused=True)
        return result.tolist(), result.requires_grad, result.is_leaf, str(gradients), x._version

    compiled = cdynamo.optimize(function)
    for _ in range(2):
        assert all_of(compiled) == all_of(function)


def test_an_input_whose_history_is_refused():
    """Where the graph writes to something, PyTorch's error comes before the write."""

    def f(v, w, out):
        out.add_(1)
        return v * w

    compiled = cdynamo.optimize(f)

    def run(f, stale):
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        v = x.unbind(0)[0]
        if stale:
            with torch.no_grad():
                x.add_(1)
        out = torch.zeros(2)
        return outcome(lambda: f(v, torch.ones(3), out).tolist()), out.tolist()

    for stale in (False, True, False):
        assert run(compiled, stale) == run(f, stale)


@pytest.mark.parametrize("read", [lambda v: v * 2, lambda v: v[1:], lambda v: (v + 1, v[0])])
def test_an_input_whose_history_is_refused_and_nothing_is_written(read):
    compiled = cdynamo.optimize(read)

    def run(f, stale):
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        v = x.unbind(0)[0]
        if stale:
            with torch.no_grad():
                x.add_(1)
        return outcome(lambda: str(f(v)) if not stale else f(v))

    for stale in (False, True, False):
        assert (str(run(compiled, stale)).split("grad_fn")[0]) == str(run(read, stale)).split("grad_fn")[0]


DATA = {
    "of what was read": lambda x: (x * x, x.data.add_(1))[0],
    "of what was read in part": lambda x: (x[0] * x[0], x.data.add_(1))[0],
    "of what nobody saves": lambda x: (x.chunk(2)[0].sort().values, x.data.add_(1))[0],
    "before it is read": lambda x: (x.data.mul_(2), x * x)[1],
    "of an item": lambda x: (x * x, x[0].data.zero_())[0],
    "and another write": lambda x: (x.data.add_(1), x.detach().add_(1), x + 1)[2],
}


@pytest.mark.parametrize("name", DATA)
def test_a_write_through_data_is_not_noticed(name):
    compiled = cdynamo.optimize(DATA[name])

    def run(f):
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        y = f(x)
        return y.tolist(), x.tolist(), x._version, outcome(lambda: torch.autograd.grad(y.sum(), x)[0].tolist())

    for _ in range(2):
        assert run(compiled) == run(DATA[name])


def test_broadcast_tensors_requires_grad_by_operand():
    def f(x, y):
        a, b = torch.broadcast_tensors(x, y)
        return a, b, a.requires_grad, b.requires_grad

    for flags in ((True, False), (False, True), (True, True)):
        x, y = torch.ones(3, 1).requires_grad_(flags[0]), torch.ones(2).requires_grad_(flags[1])
        a, b, *known = cdynamo.optimize(f)(x, y)
        assert [a.requires_grad, b.requires_grad, *known] == [*flags, *flags]


@pytest.mark.parametrize("several", [lambda y: y.unbind(), lambda y: y.chunk(2), lambda y: y.split(1, 1)])
def test_the_error_names_the_history_that_a_view_had(several):
    def f(x):
        y = x * 3
        views = several(y)
        y.neg_()
        return views[0], views[1], y

    def said(f):
        first, second, y = f(torch.ones(2, 2).requires_grad_())
        with pytest.raises(RuntimeError) as write:
            first[0] = 5
        with pytest.raises(RuntimeError) as read:
            second.grad_fn  # noqa: B018
        return [re.sub(r"Output \d+ of \w+", "Output", str(error.value)) for error in (write, read)], y._version

    compiled = cdynamo.optimize(f)
    for _ in range(2):
        assert said(compiled) == said(f)


def test_a_local_whose_history_is_refused_is_handed_on():
    """The program does not look at it again, and a graph break before the write hands it to what goes on."""

    def f(x):
        for row in x:
            row.retain_grad()
            row.detach().add_(1)
        return x

    x, y = (torch.full((1, 3), 2.0, requires_grad=True) for _ in range(2))
    compiled = cdynamo.optimize(f)
    for _ in range(2):
        f(y)
        assert compiled(x) is x and torch.equal(x, y)


def test_a_local_whose_history_is_refused_is_not_read_unnoticed():
    """No gradient is asked for, and PyTorch refuses all the same."""

    def f(x):
        y = x * 1
        rows = [row for row in y]
        y[y > 100] = 2
        print(end="")
        return rows[0].sum() < 20

    x = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="is a view and its base") as expected:
        f(x)
    compiled = cdynamo.optimize(f)
    for _ in range(2):
        with pytest.raises(RuntimeError) as got:
            compiled(x)
        assert str(got.value) == str(expected.value)


def test_a_row_whose_base_was_written_is_refused_where_only_numbers_are_made_of_it():
    """A branch on its sum, in a later turn of a loop that breaks: what is compiled for the first row serves the others."""

    def f(x, n):
        y = x + n
        for row in y:
            if row.sum() > 3:
                y.narrow(0, 0, 1).fill_(1)
        return y.sum()

    compiled = cdynamo.optimize(f)
    for n in (5, -20, 6):
        for function in (f, compiled):
            x = torch.arange(15.0, requires_grad=True)
            if n < 0:
                assert function(x, n).item() == torch.arange(15.0).add(n).sum().item()
                continue
            with pytest.raises(RuntimeError, match="of Unbind(Backward0)? is a view and its base"):
                function(x, n)


def test_stale_rows_beside_parameters():
    def f(row, weight):
        return bool((row * weight).sum() > 0)

    compiled = cdynamo.optimize(f)
    weight = torch.nn.Parameter(torch.ones(3))
    base = torch.ones(2, 3, requires_grad=True) * 2
    first, second = base.unbind()
    assert compiled(first, weight) is compiled(second, weight) is True
    base.add_(1)
    for function in (f, compiled):
        with pytest.raises(RuntimeError, match="of Unbind(Backward0)? is a view"):
            function(first, weight)
    with torch.no_grad():
        assert compiled(first, weight) is True


def written_before(view, other):
    with torch.no_grad():
        other.zero_()
    return [row * 2 for row in view.unbind(0)]


def written_after(view, other):
    rows = [row * 2 for row in view.unbind(0)]
    with torch.no_grad():
        other.zero_()
    return rows


def written_through_a_view(view, other):
    with torch.no_grad():
        other[:1].view(-1).zero_()
    return view * 2


def views_apart(base):
    with torch.no_grad():
        return base[:2], base[2:]


def empty_view(base):
    with torch.no_grad():
        return base[:0], base


ARGUMENTS = {
    "parts": lambda: views_apart(torch.ones(4, requires_grad=True)),
    "nothing of a leaf": lambda: empty_view(torch.ones(4, requires_grad=True)),
    "of an empty leaf": lambda: empty_view(torch.ones(0, requires_grad=True)),
    "no history": lambda: views_apart(torch.ones(4)),
    "made in grad mode": lambda: (base := torch.ones(4, requires_grad=True), (base[:2], base[2:].detach()))[1],
}


@pytest.mark.parametrize("write", [written_before, written_after, written_through_a_view])
@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("apart_first", [False, True])
def test_an_argument_is_a_view_beside_what_is_written_to(write, name, apart_first):
    """PyTorch counts the write whether or not the two share elements."""
    compiled = cdynamo.optimize(write)
    if apart_first:
        compiled(torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True))
    ends = []
    for run in (write, compiled, compiled):
        view, other = ARGUMENTS[name]()
        try:
            result = run(view, other)
            ends.append([(row.tolist(), row.requires_grad) for row in result])
        except RuntimeError as error:
            ends.append(str(error))
        ends.append(other.tolist())
    assert ends[:2] == ends[2:4] == ends[4:]


@pytest.mark.parametrize("backend", ["native", "eager"])
def test_a_flat_tensor_is_not_its_own_ravel(backend):
    def f(x):
        y = x * 2
        with torch.no_grad():
            flat = y.ravel()
        return y, flat is y, y.flatten() is y

    x = torch.ones(3, requires_grad=True)
    got, *told = cdynamo.optimize(f, backend=backend)(x)
    assert told == [False, True] == list(f(x)[1:]) and got.requires_grad and not got.is_leaf
    got.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("make", [lambda x: x * 1, lambda x: x.cfloat()], ids=["real", "complex"])
def test_one_of_several_views_written_past_its_history(make):
    def f(x):
        for row in make(x):
            pass
        with torch.no_grad():
            row += 1
        return row

    x = torch.arange(8.0).reshape(4, 2).requires_grad_()
    result = cdynamo.optimize(f)(x)
    assert torch.equal(result.data, f(x).data)
    with pytest.raises(RuntimeError, match="is a view and its base or another view"):
        result.grad_fn


def test_one_of_several_views_made_and_written_under_no_grad():
    def f(x):
        with torch.no_grad():
            for part in x.chunk(2):
                part.mul_(3)
            return x.sum()

    x, y = (torch.arange(8.0).reshape(4, 2).requires_grad_() for _ in range(2))
    assert torch.equal(cdynamo.optimize(f, fullgraph=True)(x), f(y))
    assert torch.equal(x, y)


@pytest.mark.parametrize("write", ["logical_not_", "zero_", "sign_"])
def test_one_of_several_views_written_without_a_gradient(write):
    def f(x):
        for row in x.unbind(0):
            getattr(row, write)()
            torch.autograd.grad(x.sum(), row, allow_unused=True)

    def error(f):
        with pytest.raises(RuntimeError) as raised:
            f(torch.arange(4.0).requires_grad_())
        return str(raised.value)[:60]

    assert error(cdynamo.optimize(f)) == error(f)


RECAST = {
    "integers": lambda x: x.view(torch.int16),
    "integers as floats": lambda x: x.long().view(torch.float64),
    "a part of integers": lambda x: x.view(torch.int16)[1:],
    "integers of a part": lambda x: x[1:].view(torch.int16),
    "a detached part": lambda x: x[1:].detach(),
}


@pytest.mark.parametrize("grad_mode", [True, False])
@pytest.mark.parametrize("name", RECAST)
def test_what_is_no_view_to_autograd(name, grad_mode):
    seen = []
    for run in (RECAST[name], cdynamo.optimize(RECAST[name])):
        x = torch.arange(8.0, dtype=torch.float64).reshape(4, 2).requires_grad_()
        with torch.set_grad_enabled(grad_mode):
            view = run(x)
        version = x._version
        view.zero_()
        seen.append((view._is_view(), view._base is None, view.requires_grad, x._version - version, x.tolist()))
    assert seen[0] == seen[1]
