"""torch.while_loop: unrolled where Python's numbers decide, one node of the graph where tensors do; with gradients."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import cdynamo  # noqa: E402

X = torch.linspace(-1, 1.5, 12).reshape(4, 3)


def plain(cond_fn, body_fn, carried):
    """What torch.while_loop means; PyTorch's own compiles, and its gradients of no turn at all are others."""
    turned = False
    while cond_fn(*carried):
        carried, turned = body_fn(*carried), True
    return carried if turned else tuple(x.clone() if isinstance(x, torch.Tensor) else x for x in carried)


def a_counter(loop, x):
    return loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5 + i), (torch.tensor(0), x))


def newton(loop, x):
    a = x.abs() + 1

    def body(y, change):
        better = 0.5 * (y + a / y)
        return better, (better - y).abs().max()

    return loop(lambda y, change: change > 1e-6, body, (a, torch.tensor(1.0)))


def until_it_is_large(loop, x):
    w = (x * 0.1).cos()
    return loop(lambda y: y.sum() < 40, lambda y: (torch.relu(y * w) + 1,), (x.sin(),))


def nested(loop, x):
    def outer(i, y):
        j, z = loop(lambda j, z: j < i, lambda j, z: (j + 1, z + y.cos() * i), (torch.tensor(0), y))
        return i + 1, z + j

    return loop(lambda i, y: i < 4, outer, (torch.tensor(1), x))


def a_condition_inside(loop, x):
    def body(i, y):
        return i + 1, torch.cond(y.sum() > 0, lambda y: y - 0.7, lambda y: y * y + i, (y,))

    return loop(lambda i, y: (i < 6) & (y.sum() > -50), body, (torch.tensor(0), x))


def temporaries_that_are_written_to(loop, x):
    def body(i, y):
        z = torch.zeros_like(y)
        z[0] = y[0] * 2
        z.add_(y)
        return i + 1, z.clamp(-3, 3)

    return loop(lambda i, y: i < 3, body, (torch.tensor(0), x))


def a_step_of_a_scan(loop, x):
    """Rows that are taken and set by a position that is carried."""
    out = torch.zeros_like(x)

    def body(i, total, out):
        row = x.index_select(0, i.reshape(1))[0]
        total = total + row
        return i + 1, total, torch.where((torch.arange(4) == i)[:, None], total, out)

    return loop(lambda i, *_: i < x.shape[0], body, (torch.tensor(0), torch.zeros(3), out))


OF_TENSORS = [
    a_counter, newton, until_it_is_large, nested, a_condition_inside, temporaries_that_are_written_to, a_step_of_a_scan,
]  # fmt: skip


def name_of(program):
    return program.__name__


@pytest.mark.parametrize("program", OF_TENSORS, ids=name_of)
def test_loops_over_tensors_are_one_graph(program, counts):
    compiled = cdynamo.optimize(lambda x: program(torch.while_loop, x), fullgraph=True)
    for x in (X, -X, X + 2, X * 7, X):
        for got, expected in zip(compiled(x), program(plain, x), strict=True):
            torch.testing.assert_close(got, expected)
            assert got.stride() == expected.stride()
    assert counts.graph_breaks == 0


@pytest.mark.parametrize("program", OF_TENSORS, ids=name_of)
def test_gradients(program):
    compiled = cdynamo.optimize(lambda x: program(torch.while_loop, x), fullgraph=True)
    for x in (X, -X, X + 2, X * 7):
        gradients = []
        for run in (compiled, lambda x: program(plain, x)):
            leaf = x.clone().requires_grad_()
            floats = [result for result in run(leaf) if result.requires_grad]
            sum(
                (result * torch.linspace(1, 2, result.numel()).reshape(result.shape)).sum() for result in floats
            ).backward()
            gradients.append(leaf.grad)
        torch.testing.assert_close(*gradients)


def test_as_torchs_own():
    for x in (X, X + 2):
        expected = a_counter(torch.while_loop, x)
        for got, wanted in zip(cdynamo.optimize(lambda x: a_counter(torch.while_loop, x))(x), expected, strict=True):
            torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("limit", [0, 1, 6])
def test_no_turn_or_a_few(limit):
    def f(x, n):
        i, y = torch.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))
        return i, y, y * 1

    x = X.clone()
    compiled = cdynamo.optimize(f, fullgraph=True)
    i, y, _ = compiled(x, torch.tensor(limit))
    assert i.item() == limit
    torch.testing.assert_close(y, x * 2**limit)
    y.zero_()  # it is no view of what came in
    torch.testing.assert_close(x, X)


def test_sizes_that_change(counts):
    compiled = cdynamo.optimize(lambda x: a_counter(torch.while_loop, x * 2)[1].sum(0))
    for n in (4, 5, 7, 9, 11):
        x = torch.linspace(-1, 1, n * 3).reshape(n, 3)
        torch.testing.assert_close(compiled(x), a_counter(plain, x * 2)[1].sum(0))
    assert counts.graph_breaks == 0


def test_pythons_numbers_decide(counts):
    def f(x, n):
        return torch.while_loop(lambda i, y: 2 * i < n, lambda i, y: (i + 1, y * 1.5 + i), (0, x))

    compiled = cdynamo.optimize(f, fullgraph=True)
    for n in (6, 0, 3):
        i, y = compiled(X, n)
        wanted, expected = plain(lambda i, y: 2 * i < n, lambda i, y: (i + 1, y * 1.5 + i), (0, X))
        assert type(i) is int and i == wanted
        torch.testing.assert_close(y, expected)


def test_structures():
    def f(x):
        def body(i, state):
            return i + 1, {"a": state["a"] * 2, "b": [state["b"][0] + state["a"]]}

        return torch.while_loop(lambda i, _: i < 3, body, (torch.tensor(0), {"a": x, "b": [x + 1]}))

    i, state = cdynamo.optimize(f, fullgraph=True)(X)
    assert i.item() == 3 and list(state) == ["a", "b"] and type(state["b"]) is list
    torch.testing.assert_close(state["a"], X * 8)
    torch.testing.assert_close(state["b"][0], X * 8 + 1)


def test_a_module_in_the_body():
    layer = torch.nn.Linear(3, 3)

    def f(x):
        return torch.while_loop(
            lambda i, y: (i < 8) & (y.norm() < 100), lambda i, y: (i + 1, y + layer(y).tanh()), (torch.tensor(0), x)
        )

    compiled = cdynamo.optimize(f, fullgraph=True)
    for x in (X, X + 3):
        results = []
        for loop in (compiled, lambda x: plain(
            lambda i, y: (i < 8) & (y.norm() < 100), lambda i, y: (i + 1, y + layer(y).tanh()), (torch.tensor(0), x)
        )):  # fmt: skip
            layer.zero_grad()
            i, y = loop(x)
            y.square().mean().backward()
            results.append([i, y.detach(), layer.weight.grad.clone(), layer.bias.grad.clone()])
        torch.testing.assert_close(*results)


REFUSED = {
    "writes to what is carried": lambda x: torch.while_loop(
        lambda i, y: i < 3, lambda i, y: (i.add_(1), y * 2), (torch.tensor(0), x)
    ),
    "writes to what is outside": lambda x: torch.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, x.add_(1) + y), (torch.tensor(0), x * 2)
    ),
    "random numbers": lambda x: torch.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, y + torch.rand(3)), (torch.tensor(0), x)
    ),
    "other sizes": lambda x: torch.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, torch.cat([y, y])), (torch.tensor(0), x)
    ),
    "another dtype": lambda x: torch.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 0.5, y * 2), (torch.tensor(0), x)
    ),
    "no bool": lambda x: torch.while_loop(lambda i, y: i - 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x)),
    "a list outside": lambda x, kept=[]: torch.while_loop(  # noqa: B006
        lambda i, y: i < 3, lambda i, y: (kept.append(1), (i + 1, y * 2))[1], (torch.tensor(0), x)
    ),
    "raises": lambda x: torch.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, {}["no"]), (torch.tensor(0), x)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    with pytest.raises(cdynamo.GraphBreakError):
        cdynamo.optimize(REFUSED[name], fullgraph=True)(X.clone())


def test_what_a_turn_has_computed_stays_in_it():
    def f(x):
        kept = []

        def body(i, y):
            z = y * 2
            kept.append(z)
            return i + 1, z

        _, y = torch.while_loop(lambda i, y: i < 3, body, (torch.tensor(0), x))
        return kept[0] + y

    with pytest.raises(cdynamo.GraphBreakError):
        cdynamo.optimize(f, fullgraph=True)(X)
