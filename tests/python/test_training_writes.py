"""Writes between a forward and its backward: what eager accepts, since no operator has saved it, compiled functions accept."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")


def leaf(size):
    return torch.linspace(-1, 2, size).requires_grad_()


# ---- what eager saves is what may not be written to --------------------------------------------------------------------


def gradients(function, write, number):
    """Those of result `number` after `write`; the error's first words where eager or the compiled function refuses."""
    inputs = [leaf(4), torch.arange(4)]
    results = function(*inputs)
    write(*inputs, *results)
    try:
        return torch.autograd.grad(results[number].sum(), inputs[0], allow_unused=True)
    except RuntimeError as error:
        return str(error).split(":")[0]


def gradient_or_refusal(result, operand):
    try:
        result.sum().backward()
    except RuntimeError as error:
        return str(error)[:60]
    return operand.grad.tolist()


def write_to(number):
    def write(*tensors):
        with torch.no_grad():
            tensors[number].add_(1)

    return write


FUNCTIONS = {
    "a mask is saved": lambda x, i: ((x > 0) * x,),
    "a mask of integers is saved": lambda x, i: ((i > 1) * x,),
    "a product of integers is saved": lambda x, i: ((i * 2) * x,),
    "a negative is saved": lambda x, i: ((-x).amax(0),),
    "one operator saves its operand": lambda x, i: (torch.nn.functional.gelu(x),),
    "an operand is saved": lambda x, i: (i * x,),
    "an index is saved": lambda x, i: (x.view(2, 2).max(0).values, x.view(2, 2).min(1, keepdim=True)[0], x * 1),
    "a result has the content of what is saved": lambda x, i: (x.exp() * 1,),
    "a call is made twice": lambda x, i: (x.exp() * 2, x.exp() + 0, x.exp()),
    "of several results": lambda x, i: (x + 1, x * x),
    "of results of each other": lambda x, i: (lambda y: (y, y.amax(0)))(x + 1),
    "of several results that share an operand": lambda x, i: (x * i, x.exp()),
}


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("counted", [False, True])
def test_writes_to_what_is_read_by_way_of_data(counted, breaks):
    """Eager does not notice them, and reads the new content; what is read by another way as well is refused."""

    def f(x, w):
        doubled = x * 2
        if breaks:
            cdynamo.graph_break()
        return doubled.data * w + (doubled * w if counted else 0), doubled

    def gradient(f):
        w = torch.ones(3, requires_grad=True)
        result, doubled = f(torch.ones(3), w)
        doubled.mul_(3)
        return gradient_or_refusal(result, w)

    assert gradient(cdynamo.optimize(f)) == gradient(f)


@pytest.mark.parametrize("written", [0, 1, 2])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_not_saved_may_be_written_to(name, written):
    function = FUNCTIONS[name]
    for number in range(len(function(leaf(4), torch.arange(4)))):
        expected = gradients(function, write_to(written), number)
        got = gradients(cdynamo.optimize(function), write_to(written), number)
        if isinstance(expected, tuple) or isinstance(got, str):
            assert str(got) == str(expected)
        else:  # something else was saved, which nobody has written to
            assert str(got) == str(gradients(function, lambda *_: None, number))


@pytest.mark.parametrize("largest", [torch.max, torch.min])
def test_the_operand_of_a_largest_element_may_be_written_to_inside(largest):
    def f(x):
        values = largest(x, 0).values
        x *= 2
        return values, x

    compiled = cdynamo.optimize(f)

    def gradient(f):
        x = torch.tensor([[1.0, 5.0, 2.0], [4.0, 3.0, 2.0]], requires_grad=True)
        return torch.autograd.grad(sum(result.sum() for result in f(x * 1)), x)[0]

    assert torch.equal(gradient(compiled), gradient(f))


COPIES = {
    "clone": lambda x: x.clone(),
    "reshape": lambda x: x.T.reshape(4).view(2, 2),
    "contiguous": lambda x: x.T.contiguous(),
    "a copy by to": lambda x: x.to(torch.float32, copy=True),
    "flip": lambda x: x.flip(0),
    "of a view": lambda x: x[1:].clone().expand(2, 2),
    "of what is returned": lambda x: x,
}


@pytest.mark.parametrize("how", ["data", "no_grad", "inside"])
@pytest.mark.parametrize("name", COPIES)
def test_what_was_copied_may_be_written_to(name, how):
    copied, weight = COPIES[name], torch.tensor([[1.0, 2.0], [3.0, 4.0]])

    def f(x, w):
        base = x * 2 if name == "of what is returned" else x
        result = (copied(base) if base is x else base.clone()) @ w
        if how == "inside":
            x.data.add_(1)
        return result, base

    def gradients(f):
        x, w = leaf(4).detach().view(2, 2).requires_grad_(), weight.clone().requires_grad_()
        result, base = f(x, w)
        for tensor in (x, base):
            if how == "data":
                tensor.data.add_(1)
            elif how == "no_grad":
                with torch.no_grad():
                    tensor.add_(1)
        result.sum().backward()
        return x.grad.tolist(), w.grad.tolist()

    assert gradients(cdynamo.optimize(f)) == gradients(f)


# Results that are a copy of the operand, or its content, in eager.
OF_THEIR_OWN = {
    "extreme": lambda x: x.max(0).values,
    "extreme, kept dim": lambda x: x.amin(0, keepdim=True),
    "concatenation": lambda x: torch.cat([x]),
    "product": lambda x: x * 1,
    "product with ones": lambda x: x * torch.ones(()),
    "difference": lambda x: x - 0,
    "quotient": lambda x: x / 1,
    "selection": lambda x: torch.where(torch.ones(1, 4, dtype=torch.bool), x, x),
    "filled nowhere": lambda x: x.masked_fill(torch.zeros(1, 4, dtype=torch.bool), 0.0),
    "two signs": lambda x: -(-x),
    "kronecker": lambda x: torch.kron(x, torch.ones(1, 1)),
    "all that is written": lambda x: torch.slice_scatter(x, x),
    "quotient of two": lambda x: x / (x + 1),
    "normalized": lambda x: torch.nn.functional.normalize(x),
    "sinc": lambda x: torch.sinc(x),
    "mean with its variance": lambda x: torch.var_mean(x, 1)[1],
    "running extreme": lambda x: x.cummax(1).values,
    "running sum": lambda x: x.cumsum(0),
    "nothing of a result": lambda x: x.exp(),
    "a view": lambda x: x.flatten(),
}


@pytest.mark.parametrize("result", [0, 1, 2, 3])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", OF_THEIR_OWN)
def test_each_history_reads_what_eager_has_saved_in_it(name, rows, result):
    """`own * own` saves what `own.double().sin()` does not: written to, the one may be refused and not the other."""

    def f(x):
        own = OF_THEIR_OWN[name](x)
        return own, own * own, own.double().sin(), own.sum(0)

    def gradient(f, written):
        leaf = (torch.arange(4.0 * rows) / 8).view(rows, 4).requires_grad_()
        operand = leaf * 2
        results = f(operand)
        with torch.no_grad():
            (operand if written == "operand" else results[0]).mul_(3)
        try:
            results[result].sum().backward()
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
            return None
        return leaf.grad

    compiled = cdynamo.optimize(f)
    for written in ("operand", "result"):
        expected = gradient(f, written)
        if expected is not None:  # else: something else was saved, or it is refused as well
            torch.testing.assert_close(gradient(compiled, written), expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sort().values,
        lambda x: x.sort(descending=True)[0] * 2,
        lambda x: x.kthvalue(2).values,
        lambda x: x.renorm(2, 0, 1.0) if x.dim() > 1 else x.median(0).values,
    ],
)
def test_operators_of_pytorch_s_own_read_what_eager_saves(function):
    def gradients(f):
        x = torch.tensor([2.0, 1.0, 3.0, 5.0]).requires_grad_()
        result = f(x)
        with torch.no_grad():
            x[1:] = 0
        return gradient_or_refusal(result, x)

    assert gradients(cdynamo.optimize(function)) == gradients(function)


def test_what_another_call_reads_and_nobody_differentiates_is_not_read_for_the_backward():
    function = cdynamo.optimize(lambda x, mask: (mask * mask * x, mask.nonzero()))  # eager keeps mask * mask
    x, mask = leaf(6).detach().view(2, 3).requires_grad_(), torch.tensor([True, False, True])
    result, _ = function(x, mask)
    mask.zero_()
    result.sum().backward()
    assert x.grad.tolist() == [[1, 0, 1], [1, 0, 1]]


@pytest.mark.parametrize("write", [lambda a: a.detach().mul_(2), lambda a: a.detach().numpy().fill(0)])
@pytest.mark.parametrize(
    "function", [lambda x: ((x * x).tanh(), (x * x).tanh() * 2), lambda x: ((x @ x).exp(), (x @ x).exp() @ x)]
)
def test_one_of_two_equal_results_may_be_written_to(function, write):
    def gradient(f):
        x = torch.linspace(-1, 1, 9).view(3, 3).requires_grad_()
        first, second = f(x)
        write(first)
        second.sum().backward()
        return x.grad

    torch.testing.assert_close(gradient(cdynamo.optimize(function)), gradient(function))


def test_what_was_written_to_stays_refused_after_another_backward():
    x, y = leaf(3), leaf(3)
    a, b = cdynamo.optimize(lambda x, y: (x * x, y * y))(x, y)
    with torch.no_grad():
        y.add_(1)
    a.sum().backward()
    assert torch.equal(x.grad, 2 * x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        b.sum().backward()


# ---- backward twice, where no operator has saved anything ----------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2,
        lambda x: (x + 1).tril().view(-1),
        lambda x: (x + 1, x[:, 1:] > x.pow(2).sum(-1, keepdim=True))[0],  # what nobody differentiates
        lambda x: x.mean(),
        lambda x: x.triu(1) + x.diagonal(),
        lambda x: torch.where(torch.arange(2) > 0, x, 0),
    ],
)
def test_backward_twice(function):
    def twice(f):
        x = leaf(4).detach().view(2, 2).requires_grad_()
        loss = f(x).sum()
        loss.backward()
        try:
            loss.backward()
        except RuntimeError as error:
            return str(error)
        return x.grad.tolist()

    assert twice(cdynamo.optimize(function)) == twice(function)


# ---- views that come with others -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.unbind()[0],
        lambda x: next(iter(x)),
        lambda x: x.chunk(2)[1],
        lambda x: x.split([1, 1])[0].T,
        lambda x: x.tensor_split(2)[0],
        lambda x: x[0],
    ],
)
@pytest.mark.parametrize("breaks", [False, True])
def test_writes_to_one_of_several_views(view, breaks):
    def f(x):
        x = x * 1
        part = view(x)
        if breaks:
            cdynamo.graph_break()
        part.add_(1)
        return x.detach()

    def result(f):
        x = leaf(4).detach().view(2, 2).requires_grad_()
        try:
            return f(x).tolist()
        except RuntimeError as error:
            return str(error).partition(" is a view ")[2]

    assert result(cdynamo.optimize(f)) == result(f)


# ---- gradients past the graph --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [lambda x: x[-1], lambda x: x * x, lambda x: x])
@pytest.mark.parametrize("after", [lambda x, a: a.sum(), lambda x, a: (a + x.sin()).sum()])
def test_history_that_begins_before_a_break(before, after):
    def f(x):
        a = before(x)
        cdynamo.graph_break()
        return torch.autograd.grad(after(x, a), x, allow_unused=True)[0]

    x = leaf(4).detach().view(2, 2).requires_grad_()
    torch.testing.assert_close(cdynamo.optimize(f)(x), f(x))


def test_a_leaf_and_a_result_are_two_entries():
    f = cdynamo.optimize(lambda x, a: torch.autograd.grad((a * x).sum(), x)[0])
    x = leaf(3)
    assert torch.equal(f(x, leaf(3)), leaf(3))
    torch.testing.assert_close(f(x, x * x), 3 * x.detach() ** 2)


@pytest.mark.native
@pytest.mark.parametrize("other", [lambda w: w.double(), lambda w: w[:2], lambda w: w.repeat(2)[::2]])
def test_data_that_is_replaced_before_the_backward(other):
    compiled = cdynamo.optimize(lambda w, x: (w.sin() * x * w).sum())
    for create_graph in (False, True):
        w, x = torch.nn.Parameter(torch.arange(4.0)), leaf(4)
        result, expected = compiled(w, x), w.detach().sin() * w.detach()
        w.data = other(w.data)
        if create_graph:
            with pytest.raises(RuntimeError, match="another dtype, shape or layout"):
                torch.autograd.grad(result, x, create_graph=True)
        else:
            torch.testing.assert_close(torch.autograd.grad(result, x)[0], expected)


# ---- parameters that are updated in the call that uses them ---------------------------------------------------------------


def closed_step(x, w):
    with torch.enable_grad():
        y = (x * w).sum(1)
    w.mul_(2)
    return y


def step_after_a_break(x, w):
    with torch.no_grad():
        cdynamo.graph_break()
    y = (x * w).sum(1)
    with torch.no_grad():
        w.mul_(2)
    return y


@pytest.mark.native
@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("step", [closed_step, step_after_a_break])
def test_an_updated_parameter_has_its_gradient_whatever_mode_the_call_is_made_in(step, backend):
    x, w = torch.randn(1, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    before = w.detach().clone().requires_grad_()
    wanted = torch.autograd.grad((x * before).sum(), (x, before))
    with torch.set_grad_enabled(step is not closed_step):
        y = cdynamo.optimize(step, backend=backend)(x, w)
    assert torch.equal(w, 2 * before)
    try:
        found = torch.autograd.grad(y.sum(), (x, w))
    except RuntimeError as error:  # as eager, where the backend's operators save what was written to
        assert backend == "eager" and "modified by an inplace operation" in str(error)
    else:
        for gradient, expected in zip(found, wanted):
            torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize(
    "convert", [lambda x: x.long(), lambda x: x.float(), lambda x: x.float().double(), lambda x: x.sum(-1).sum(0), lambda x: x[:1].long()]
)  # fmt: skip
@pytest.mark.parametrize("size", [(), (3,)])
def test_an_operand_that_was_converted_may_be_written_to(convert, size):
    w = leaf(3)

    def step(x):
        result = convert(x if x.ndim else x[None]) * w
        cdynamo.graph_break()
        x.logical_not_()
        return result.sum()

    x = torch.ones(size, dtype=torch.bool)
    wanted = torch.autograd.grad(step(x.clone()), w)
    torch.testing.assert_close(torch.autograd.grad(cdynamo.optimize(step)(x), w), wanted)


@pytest.mark.parametrize("name", ["logical_and_", "logical_or_", "logical_xor_"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_logical_operators_in_place_give_no_history(name, dtype):
    def f(x, y):
        x = x * 0.5
        getattr(x, name)(y.reshape(-1))
        return x, x.requires_grad

    operands = torch.arange(6).reshape(2, 3).to(dtype), torch.arange(3.0).requires_grad_()
    want, got = f(*operands), cdynamo.optimize(f)(*operands)
    assert torch.equal(got[0], want[0])
    assert not got[0].requires_grad and not got[1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_a_written_view_of_integers_has_a_history_of_its_own(dtype):
    def f(x, y):
        base = x + 1
        view = base.view(torch.float64)
        view.sub_(y)
        return view

    results = []
    for run in (f, cdynamo.optimize(f)):
        x, y = torch.arange(6).reshape(2, 3).to(dtype), torch.arange(3.0, dtype=torch.float64).requires_grad_()
        result = run(x, y)
        assert result.requires_grad
        results.append((result.detach(), *torch.autograd.grad(result.sum(), y)))
    for got, expected in zip(*results):
        torch.testing.assert_close(got, expected)
