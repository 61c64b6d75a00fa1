"""A training step with its backward inside of the compiled function: one graph."""

import pytest

import cdynamo

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def grad_mode():
    with torch.enable_grad():
        yield


def make_step(model):
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
                p.grad = None
        return loss.detach()

    return step


def train(compiled, steps=6):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
    step = make_step(model)
    if compiled:
        step = cdynamo.optimize(step)
    losses = [step(torch.randn(8, 6), torch.randint(0, 3, (8,))).item() for _ in range(steps)]
    return losses, [p.detach().clone() for p in model.parameters()]


def test_a_step_is_one_graph_and_trains_like_eager():
    expected, weights = train(compiled=False)
    before = cdynamo.counters()
    losses, got = train(compiled=True)
    after = cdynamo.counters()
    assert losses == pytest.approx(expected, rel=1e-5)
    for a, b in zip(got, weights):
        torch.testing.assert_close(a, b)
    assert after["graph_breaks"] == before["graph_breaks"]
    assert after["graphs_compiled"] - before["graphs_compiled"] == 1


def test_gradients_accumulate_into_what_is_there():
    model = nn.Linear(3, 2)

    @cdynamo.optimize
    def add_gradients(x):
        model(x).square().sum().backward()

    x = torch.randn(4, 3)
    model(x).square().sum().backward()
    expected = [3 * p.grad for p in model.parameters()]
    kept = model.weight.grad
    add_gradients(x)
    add_gradients(x)
    assert model.weight.grad is kept
    for p, e in zip(model.parameters(), expected):
        torch.testing.assert_close(p.grad, e)


def test_zero_grad_inside():
    model = nn.Linear(3, 2)

    @cdynamo.optimize
    def step(x):
        model.zero_grad()
        model(x).sum().backward()
        return model.bias.grad

    x = torch.randn(4, 3)
    for _ in range(3):
        assert step(x).tolist() == [4.0, 4.0]
        assert model.bias.grad.tolist() == [4.0, 4.0]


def test_hooks_are_left_to_the_engine():
    model = nn.Linear(3, 2)
    seen = []
    model.bias.register_hook(lambda grad: seen.append(grad.clone()))

    @cdynamo.optimize
    def step(x):
        model(x).sum().backward()

    step(torch.randn(4, 3))
    assert len(seen) == 1 and model.bias.grad.tolist() == [4.0, 4.0]


def test_the_gradient_of_an_input_that_is_no_parameter_is_the_engine_s():
    x = torch.randn(3, requires_grad=True)

    @cdynamo.optimize
    def step(x):
        (x * x).sum().backward()

    step(x)
    torch.testing.assert_close(x.grad, 2 * x.detach())


def test_autograd_grad_inside():
    net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)).double()

    def loss_fn(x):
        u = net(x)
        du = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        d2u = torch.autograd.grad(du.sum(), x, create_graph=True)[0]
        return ((d2u + u) ** 2).mean()

    x = torch.linspace(0, 1, 9).double().reshape(-1, 1).requires_grad_()
    expected = torch.autograd.grad(loss_fn(x), list(net.parameters()))
    before = cdynamo.counters()
    got = torch.autograd.grad(cdynamo.optimize(loss_fn)(x), list(net.parameters()))
    after = cdynamo.counters()
    assert after["graph_breaks"] == before["graph_breaks"]
    for a, b in zip(got, expected):
        torch.testing.assert_close(a, b)


def test_autograd_grad_of_what_is_not_used():
    @cdynamo.optimize
    def f(x, y):
        return torch.autograd.grad((x * x).sum(), (x, y), allow_unused=True)

    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    dx, dy = f(x, y)
    assert dx.tolist() == [2, 2] and dy is None
    assert not dx.requires_grad
    with pytest.raises(RuntimeError):
        cdynamo.optimize(lambda x, y: torch.autograd.grad((x * x).sum(), (x, y)))(x, y)


SCHEDULES = {
    "StepLR": lambda s, o: s.StepLR(o, 2),
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9**epoch if epoch > 2 else 0.1 * (epoch + 1)),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 10),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3),
    "LinearLR": lambda s, o: s.LinearLR(o),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 5),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=20),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [3, 9]),
    "SequentialLR": lambda s, o: s.SequentialLR(o, [s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)], [5]),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 2, 2),
}


@pytest.mark.native
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_goes_on_within_the_step(name, counts):
    """Where one graph is demanded; else the schedule is left to Python."""

    def run(compiled):
        torch.manual_seed(0)
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        schedule = SCHEDULES[name](torch.optim.lr_scheduler, optimizer)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            schedule.step()
            return loss.detach()

        if compiled:
            step = cdynamo.optimize(step, fullgraph=True)
        rates = []
        for _ in range(16):
            step(torch.randn(4, 6))
            rates.append((schedule.last_epoch, schedule.get_last_lr(), optimizer.param_groups[0]["lr"]))
        return rates, [p.detach() for p in model.parameters()]

    expected, got = run(compiled=False), run(compiled=True)
    assert got[0] == expected[0]
    torch.testing.assert_close(got[1], expected[1])
    assert counts.graphs_compiled <= 6
