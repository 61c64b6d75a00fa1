"""A backward frees what it has read: a second one raises where eager's does, within a compiled function as after it."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")


def weights(size=3):
    return torch.linspace(-1, 1, size * size).reshape(size, size).requires_grad_()


def outcome(call):
    try:
        return call()
    except RuntimeError as error:
        return str(error)[:60]


def same(got, expected):
    assert len(got) == len(expected)
    for one, other in zip(got, expected):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other)
        else:
            assert one == other


def in_a_loop(x, w):
    y = (x @ w).tanh()
    log = []
    for _ in range(3):
        try:
            y.sum().backward()
            log.append("went")
        except RuntimeError as error:
            log.append(str(error)[:60])
    return *log, w.grad


def of_what_saves_nothing(x, w):
    y = (x + w).t()[1:]
    for _ in range(3):
        y.mean().backward()
    return (w.grad,)


def retained(x, w):
    y = (x @ w).tanh()
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return (w.grad,)


def retained_once(x, w):
    y = (x @ w).tanh()
    log = []
    for retain in True, False, True:
        log.append(outcome(lambda: y.sum().backward(retain_graph=retain)))  # noqa: B023
    return *log, w.grad


def of_two_histories(x, w):
    y, z = x @ w, w.tanh()
    y.sum().backward()
    z.sum().backward()
    return (w.grad,)


def that_meet(x, w):
    y = x @ w
    log = [outcome(lambda: y.exp().sum().backward()), outcome(lambda: y.sin().sum().backward())]
    return *log, w.grad


def by_grad(x, w):
    y = (x @ w).tanh()
    (first,) = torch.autograd.grad(y.sum(), w)
    return first, outcome(lambda: torch.autograd.grad(y.sum(), w)[0])


def by_grad_with_a_graph(x, w):
    y = (x @ w).tanh()
    (first,) = torch.autograd.grad(y.sum(), w, create_graph=True)
    first.pow(2).sum().backward()
    return first.detach(), outcome(lambda: y.sum().backward()), w.grad


def written_between(x, w):
    y = x @ w
    y.mul_(w)
    log = [outcome(lambda: y.sum().backward()), outcome(lambda: y.sum().backward())]
    return *log, w.grad


WITHIN = [
    in_a_loop, of_what_saves_nothing, retained, retained_once, of_two_histories, that_meet, by_grad, by_grad_with_a_graph,
    written_between,
]  # fmt: skip


@pytest.mark.parametrize("program", WITHIN, ids=lambda program: program.__name__)
def test_within_a_function(program):
    compiled = cdynamo.optimize(program)
    for _ in range(2):
        got, expected = (call(torch.ones(3, 3), weights()) for call in (compiled, program))
        same(got, expected)


@pytest.mark.native
def test_what_does_not_meet_is_one_graph():
    for program in of_what_saves_nothing, retained, of_two_histories:
        cdynamo.optimize(program, fullgraph=True)(torch.ones(3, 3), weights())


def loss(x, w):
    loss = (x @ w).tanh().mean()
    loss.backward()
    return (loss,)


def loss_and_more(x, w):
    h = x @ w
    loss = h.tanh().mean()
    loss.backward()
    return loss, h * 2, h.exp(), w.sin(), w + x


def loss_with_graph(x, w):
    loss = (x @ w).tanh().mean()
    loss.backward(retain_graph=True)
    return (loss,)


def gradients(x, w):
    h = (x @ w).tanh()
    (w.grad,) = torch.autograd.grad(h.sum(), w)
    return (h,)


def on_another_way(x, w):
    h = (x @ w).tanh()
    w.grad = torch.autograd.grad(h.sum(), w)[0]
    return (w.sum() + w.sin(),)


def steps(x, w):
    h = w.round()
    h.float().sum().backward()
    return (h,)


def with_bias(x, w):
    h = torch.nn.functional.linear(x, w, w[0])
    h.sum().backward()
    return (h,)


def equal_calls(x, w):
    first, second = w.tanh(), w.tanh()
    first.sum().backward()
    return (second,)


def a_view(x, w):
    h = (x @ w).tanh()
    h.mean().backward()
    return h[0], h


AFTER = [loss, loss_and_more, loss_with_graph, gradients, on_another_way, steps, with_bias, equal_calls, a_view]


@pytest.mark.parametrize("program", AFTER, ids=lambda program: program.__name__)
def test_after_a_function(program):
    """Of each result alone, and of each after all others."""
    compiled = cdynamo.optimize(program)

    def seen(call, order):
        w = weights()
        results = call(torch.full((3, 3), 0.5), w)
        log = [*(each.detach() for each in results), *(each.requires_grad for each in results), w.grad.clone()]
        for index in order:
            if results[index].requires_grad:
                log.append(outcome(lambda: results[index].sum().backward()))  # noqa: B023
        return *log, w.grad

    count = len(program(torch.ones(3, 3), weights()))
    for order in [[index] for index in range(count)] + [list(range(count))]:
        same(seen(compiled, order), seen(program, order))


@pytest.mark.native
def test_what_is_freed_is_not_kept():
    """A step that returns its loss keeps no activation alive with it."""

    def step(x, w):
        h = x
        for _ in range(8):
            h = (h @ w).tanh()
        loss = h.mean()
        loss.backward()
        return loss

    compiled = cdynamo.optimize(step, fullgraph=True)
    x, w = torch.ones(64, 64), weights(64)
    returned = compiled(x, w)
    assert returned.requires_grad and returned.grad_fn.saved_tensors == ()


def made_inside(x, w):
    v = torch.ones(3, requires_grad=True)
    (x * v).sum().backward()
    (x * v * v).sum().backward()
    return (v.grad,)


def to_what_is_computed(x, w):
    y = (x @ w).tanh()
    (first,) = torch.autograd.grad(y.exp().sum(), y)
    (second,) = torch.autograd.grad(y.sin().sum(), y)
    y.sum().backward()
    return first, second, w.grad


@pytest.mark.parametrize("program", [made_inside, to_what_is_computed], ids=lambda program: program.__name__)
def test_what_has_made_the_inputs_is_not_gone_through(program):
    fast = cdynamo.optimize(program, fullgraph=program is made_inside)
    same(fast(torch.ones(3, 3), weights()), program(torch.ones(3, 3), weights()))
