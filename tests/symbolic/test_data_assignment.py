"""tensor.data = other in captured code."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import cdynamo  # noqa: E402

pytestmark = pytest.mark.native  # backends in Python get a graph break there


def outcome(call, make):
    arguments = make()
    pointers = [t.data_ptr() for t in arguments]
    versions = [t._version for t in arguments]
    result = call(*arguments)
    results = [r.detach().clone() if isinstance(r, torch.Tensor) else r for r in result]
    moved = [t.data_ptr() == before for t, before in zip(arguments, pointers)]
    counted = [t._version - before for t, before in zip(arguments, versions)]
    shared = [
        [
            isinstance(r, torch.Tensor) and r.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()
            for r in result
        ]
        for t in arguments
    ]
    gradients = [t.grad for t in arguments]
    facts = [(t.requires_grad, t.is_leaf) for t in [*arguments, *(r for r in result if isinstance(r, torch.Tensor))]]
    return [t.detach().clone() for t in arguments], results, gradients, [moved, counted, shared, facts]


def check(fn, make):
    cdynamo.reset()
    fast = cdynamo.optimize(fn, fullgraph=True)
    for _ in range(3):
        expected, found = outcome(fn, make), outcome(fast, make)
        torch.testing.assert_close(found[:3], expected[:3])
        assert found[3] == expected[3]


def plain():
    return torch.arange(4.0), torch.ones(4)


def parameter():
    return torch.nn.Parameter(torch.arange(4.0)), torch.ones(4)


def of_a_new_tensor(x, y):
    made = x.detach().clone()
    view = made[1:]
    made.data = x.detach() + y
    made.add_(1)
    return made, view, made * 2


def of_another_size(x, y):
    made = torch.zeros(2)
    made.data = y * 3
    return made, made.shape[0], made.sum()


def of_an_argument(x, y):
    x.data = x.detach() * 2 + y
    return (y + 1,)


def read_afterwards(x, y):
    x.data = x.detach() * 2 + y
    with torch.no_grad():
        z = x + 1
    x.data.mul_(3)
    return z, x.data + 0, x.detach() * 1


def shared_with_a_result(x, y):
    z = y * 2
    x.data = z
    z += 1
    return (z,)


@pytest.mark.parametrize("make", [plain, parameter])
@pytest.mark.parametrize(
    "fn",
    [of_a_new_tensor, of_another_size, of_an_argument, read_afterwards, shared_with_a_result],
    ids=lambda fn: fn.__name__,
)
def test_assignments(fn, make):
    check(fn, make)


def test_a_step_by_hand():
    def step(w, x):
        loss = ((w * x - 1) ** 2).sum()
        loss.backward()
        w.data = w.data - 0.1 * w.grad
        w.grad.zero_()
        return loss.detach(), w.grad

    check(step, parameter)


def test_a_parameter_is_not_read_again_in_grad_mode():
    def twice(w, x):
        w.data = w.data * 2
        return ((w * x).sum(),)

    w, x = parameter()
    with pytest.raises(cdynamo.GraphBreakError):
        cdynamo.optimize(twice, fullgraph=True)(w, x)
    fast = cdynamo.optimize(twice)
    for call in (twice, fast):
        w, x = parameter()
        (loss,) = call(w, x)
        loss.backward()
        assert torch.equal(w.grad, x) and torch.equal(w.detach(), torch.arange(4.0) * 2)


def test_other_dtypes_are_left_to_python():
    def cast(x, y):
        x.data = y.double()
        return (x.dtype,)

    for call in (cast, cdynamo.optimize(cast)):
        x, y = plain()
        assert call(x, y) == (torch.float64,) and x.dtype is torch.float64


class Converts(torch.nn.Module):
    """Converts itself in its forward, as programs do that are not sure where they are."""

    def __init__(self, how):
        super().__init__()
        self.linear, self.how = torch.nn.Linear(3, 3), how
        self.register_buffer("scale", torch.rand(3))

    def forward(self, x):
        return self.how(self, x).linear(x) * self.scale


CONVERSIONS = {
    "to a dtype": lambda m, x: m.to(torch.float32),
    "to a device": lambda m, x: m.to("cpu"),
    "to both, by name": lambda m, x: m.to(device=x.device, dtype=x.dtype),
    "to a tensor": lambda m, x: m.to(x),
    "float": lambda m, x: m.float(),
    "cpu": lambda m, x: m.cpu(),
}


@pytest.mark.parametrize("grads", [False, True])
@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_module_that_is_converted_to_what_it_is(name, grads):
    ends = []
    for compiled in (False, True):
        torch.manual_seed(0)
        module = Converts(CONVERSIONS[name])
        if grads:
            module(torch.ones(2, 3)).sum().backward()
        run = cdynamo.optimize(module, fullgraph=True) if compiled else module
        before = [p.data_ptr() for p in module.parameters()]
        out = run(torch.linspace(0, 1, 6).reshape(2, 3))
        out.sum().backward()
        ends.append([out, *(p.grad for p in module.parameters()), *(p._version for p in module.parameters())])
        assert before == [p.data_ptr() for p in module.parameters()]
    torch.testing.assert_close(*ends)
