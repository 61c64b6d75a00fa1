"""Programs that mix PyTorch and NumPy: one graph each, with each framework's own results, views of one memory, and gradients."""

import collections

import numpy as np
import pytest
from memory_check import READS_NUMBERS, assert_equal, backward, check, f32, f64, leaf

import cdynamo

torch = pytest.importorskip("torch")

ROUND_TRIPS = [
    ("numpy", lambda x: x.numpy(), f32(3)),
    ("numpy of a view", lambda x: x.view(x.shape).detach().numpy(), f32(3)),
    ("numpy of a result", lambda x: (x * 2).numpy(), f32(3)),
    ("numpy and the tensor", lambda x: ((y := x * 2), y.numpy()), f32(3)),
    ("detach", lambda x: (x.detach().numpy(), x * 2), leaf(3)),
    ("force", lambda x: x.numpy(force=True) + 1, leaf(3)),
    ("asarray", lambda x: np.asarray(x), f32(3)),
    ("asarray with a dtype", lambda x: np.asarray(x, dtype=np.float64), f32(3)),
    ("array", lambda x: np.array(x), f32(2, 3)),
    ("array of a transpose", lambda x: np.array(x.T), f32(2, 3)),
    ("array of a list", lambda x: np.array([x[0], x[1]]), f32(2, 3)),
    ("__array__", lambda x: x.__array__(), f32(3)),
    ("__array__ with a dtype", lambda x: x.__array__(np.float64), f32(3)),
    ("__array__ of an array", lambda a: (a.__array__(), np.asanyarray(a)), f64(3)),
    ("from_numpy", lambda a: torch.from_numpy(a), f64(3)),
    ("from_numpy of a result", lambda a: torch.from_numpy(a + 1), f64(3)),
    ("from_numpy of a slice", lambda a: torch.from_numpy(a[::2]), f64(5)),
    ("from_numpy of bools", lambda a: torch.from_numpy(a > 1), f64(5)),
    ("as_tensor", lambda a: torch.as_tensor(a), f64(3)),
    ("as_tensor with a dtype", lambda a: torch.as_tensor(a, dtype=torch.float32), f64(3)),
    ("tensor", lambda a: torch.tensor(a), f64(3)),
    ("tensor of a transpose", lambda a: torch.tensor(a.T), f64(2, 3)),
    ("tensor of columns", lambda a: torch.tensor(a[:, ::2]), f64(2, 3)),
    ("tensor with a dtype", lambda a: torch.tensor(a, dtype=torch.float32), f64(3)),
    ("tensor of a NumPy scalar", lambda a: torch.tensor(a.sum()), f64(3)),
    ("tensor of constants", lambda x: x + torch.tensor(np.float64(2)) + torch.tensor(np.float32(1)), f32(3)),
    ("new_tensor", lambda x: x.new_tensor(x.numpy().astype(np.float64)), f32(3)),
    ("round trip", lambda x: torch.from_numpy(np.sin(x.numpy())) * 2, f32(3)),
    ("round trip of an array", lambda a: torch.exp(torch.from_numpy(a)).numpy().sum(axis=0), f64(2, 3)),
    ("a view and back", lambda x: torch.from_numpy(x.numpy().T), f32(2, 3)),
    ("0-dim", lambda x: x.sum().numpy(), f32(3)),
    ("0-dim to a scalar", lambda x: x.sum().numpy()[()], f32(3)),
    ("0-dim and on", lambda x: x.sum().numpy() + 1, f32(3)),
    ("0-dim back", lambda x: torch.from_numpy(x.sum().numpy()) + x, f32(3)),
    ("cumulated", lambda x: torch.from_numpy(np.cumsum(x.numpy(), dtype=np.float64)), f32(4)),
    (
        "contiguous and 0-dim",
        lambda x: (np.ascontiguousarray(x.sum().numpy()), np.ascontiguousarray(x[0].numpy())),
        f32(3),
    ),
    ("complex", lambda x: (x * 1j).numpy(), f32(3)),
    ("complex and its tensor", lambda x: ((y := x * 1j), y.numpy(), y.numpy().imag + 1), f32(3)),
    ("complex and back", lambda x: torch.from_numpy((x + 1j).numpy() * 2) * x, f32(2, 3)),
    ("complex without history", lambda x: (x + 1j).detach().numpy() * 2, leaf(3)),
    ("complex array", lambda a: torch.from_numpy(a * (1 + 2j)), f64(3)),
    ("complex array of columns", lambda a: torch.from_numpy((a * 1j)[:, ::2].T), f64(2, 3)),
    ("complex array without dims", lambda a: torch.from_numpy((a * 1j).sum(keepdims=True)[0]), f64(3)),
    ("as_tensor of a complex array", lambda a: torch.as_tensor(a * 1j).abs(), f64(3)),
    ("tensor of a complex array", lambda a: torch.tensor((a * 1j).T), f64(2, 3)),
    ("contiguous", lambda x: torch.from_numpy(np.ascontiguousarray(x.numpy().T)), f32(2, 3)),
    ("raveled elements", lambda a: [v.ravel().strides for v in (a[:, None][0], a[::2][:1], a[::2][:0])], f64(6)),
]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 1j).numpy(),
        lambda x: torch.from_numpy((x * 1j).numpy()),
        lambda x: torch.from_numpy(x.numpy() * 1j),
        lambda x: torch.as_tensor(x.numpy() * 1j),
    ],
)
def test_complex_arrays_without_elements(function):
    plain, compiled = function(torch.zeros(0, 3)), cdynamo.optimize(function)(torch.zeros(0, 3))
    assert_equal(compiled, plain)


@pytest.mark.parametrize("name, function, arg", ROUND_TRIPS, ids=[row[0] for row in ROUND_TRIPS])
def test_one_as_the_other(name, function, arg):
    check(function, arg)


X, I, A, B = f32(3), torch.tensor([0, 2]), f64(3), np.array([True, False, True])
TOGETHER = [
    ("tensor + array", lambda x, a: x + a, X, A),
    ("tensor - array", lambda x, a: x - a, X, A),
    ("tensor ** array", lambda x, a: x**a, X, A),
    ("tensor @ array", lambda x, a: x @ a, X, A),
    ("bools", lambda x, a: (x > 0.5) & (a > 0.5), X, A),
    ("transposed", lambda x, a: x.T + a.T, f32(2, 3), f64(2, 3)),
    ("0-dim tensor * array", lambda x, a: x.sum() * a, X, A),
    ("tensor * float64", lambda x, a: x * a.sum(), X, A),
    ("float64 * tensor", lambda x, a: a.sum() * x, X, A),
    ("float64 - tensor", lambda x, a: a.sum() - x, X, A),
    ("ints * float64", lambda i, a: i * a.max(), I, A),
    ("ints * int64", lambda i, a: i * a.argmax(), I, A),
    ("ints // int64", lambda i, a: i // np.int64(2), I, A),
    ("ints / int64", lambda i, a: i / np.int64(2), I, A),
    ("0-dim + float64", lambda x, a: x.sum() + a.sum(), X, A),
    ("float64 < tensor", lambda x, a: (a.mean() < x, x < a.mean(), x.sum() > a.sum()), X, A),
    ("constants", lambda x, a: (x * np.float64(2), np.float32(2) * x, np.int64(2) * x, x ** np.float64(2)), X, A),
    ("constants and ints", lambda i, a: (i * np.float64(2), np.int64(3) * i), I, A),
    ("clamp", lambda x, a: torch.clamp(x, max=np.float64(0.5)), X, A),
    ("where", lambda x, a: torch.where(x > 0.5, x, np.float64(2)), X, A),
    ("full", lambda x, a: torch.full((np.int64(2), 3), np.float32(2)) + x, X, A),
    ("sizes", lambda x, a: x.reshape(np.int64(1), -1).repeat(np.int64(2), 1), X, A),
    ("shape", lambda x, a: np.zeros(x.shape) + a, X, A),
    ("size of an array", lambda x, a: torch.zeros(a.shape[0]) + x, X, A),
    ("integer division", lambda i, a: (torch.from_numpy(i.numpy() // 2), i // 2), torch.tensor([-3, 5]), A),
    ("true division", lambda i, a: (i.numpy() / 2, i / 2), torch.tensor([-3, 5]), A),
    ("remainders", lambda i, a: (i.numpy() % -2, i % -2), torch.tensor([-3, 5]), A),
    ("promotion", lambda x, a: (x.numpy() * a, x * torch.from_numpy(a), x.numpy() * 2.5, x * 2.5), X, A),
    ("small ints", lambda i, a: (i.numpy() + 1, i + 1, i.numpy() * 0.5, i * 0.5), I.to(torch.int8), A),
    ("means of ints", lambda i, a: i.numpy().mean() + torch.ones(2), I, A),
    ("array by tensor", lambda i, a: a[i], I, A),
    ("array by 0-dim", lambda i, a: a[i[1]] + 1, I, A),
    ("tensor by array", lambda i, x: x[i], np.array([0, 2]), X),
    ("tensor by bools", lambda b, x: x[b], B, X),
    ("array by bools", lambda x, a: a[x > 0.5], X, A),
    ("rows by array", lambda i, x: x[i, i], np.array([0, 1]), f32(2, 3)),
    ("float", lambda x, a: float(x.numpy().mean()) * a, X, A),
    ("int", lambda x, a: a * x.item(), f32(1), A),
    ("dot", lambda x, a: a.dot(x), X, A),
]


@pytest.mark.parametrize("name, function, x, y", TOGETHER, ids=[row[0] for row in TOGETHER])
def test_both_in_one_expression(name, function, x, y):
    check(function, x, y)


OF_TENSORS = [
    lambda x: np.sin(x),
    lambda x: np.add(x, x),
    lambda x: np.add(x, 1),
    lambda x: np.isnan(x),
    lambda x: np.greater(x, 1),
    lambda x: np.maximum(x, 0.5),
    lambda x: np.divmod(x, 2),
    lambda x: np.sqrt(x.sum()),
    lambda x: np.matmul(x, x.T),
    lambda x: np.concatenate([x, x]),
    lambda x: np.concatenate([x, x.numpy().astype(np.float64)], axis=1),
    lambda x: np.stack([x, x]),
    lambda x: np.vstack([x, x]),
    lambda x: np.where(x > 1, x, 0),
    lambda x: np.dot(x, x.T),
    lambda x: np.clip(x, 0.5, 1),
    lambda x: np.abs(x),
    lambda x: np.expand_dims(x, 0),
    lambda x: np.transpose(x),
    lambda x: np.reshape(x, (3, 2)),
    lambda x: np.zeros_like(x),
    lambda x: np.ones_like(x) + np.copy(x),
    lambda x: np.ravel(x),
    lambda x: np.tile(x, 2),
    lambda x: np.diff(x),
    lambda x: np.outer(x[0], x[1]),
    lambda x: np.argmax(x),
    lambda x: np.cumsum(x, axis=0),
    lambda x: np.round(x),
    lambda x: np.linalg.norm(x),
    lambda x: np.squeeze(x[None]),
    lambda x: np.float64(x[0, 0]),
    lambda x: np.float32(x.sum()),
    lambda x: np.shape(x)[0],
    lambda x: np.array_equal(x, x.numpy()) and 1,
    lambda x: np.einsum("ij,kj->ik", x, x),
    lambda x: np.tensordot(x, x, ((1,), (1,))),
]


@pytest.mark.parametrize("function", OF_TENSORS, ids=range(len(OF_TENSORS)))
def test_numpy_functions_of_tensors(function):
    check(function, f32(2, 3), fullgraph=False)


def add_in_place(x, a):
    x += a  # a new tensor: the tensor's operator gives up, and so its name is bound to what NumPy's gives
    return x


def items_by_bools(x, a):
    x[a > 0.5] = 0
    a[x > 0.1] = 7


def items(x, a):
    x[0] = a[1]
    x[1] = np.float64(3)
    a[0] = x[1]
    a[1:] = x[1:]


@pytest.mark.parametrize("function", [add_in_place, items_by_bools, items])
def test_assignments(function):
    check(function, X, A)


# ---- views of one memory


def write_through_the_array(x):
    a = x.numpy()
    a[0] = 7
    a *= 2
    return x + 1


def write_through_the_tensor(x):
    a = x.numpy()
    x.add_(1)
    return a.sum(), a


def write_to_an_argument(a):
    t = torch.from_numpy(a)
    t[1:] = 5
    return a * 2


def write_to_the_array_of_a_tensor(a):
    t = torch.from_numpy(a)
    a += 1
    return t.sum(), t


def write_to_a_result(x):
    y = x * 2
    y.numpy()[1] = -1
    return y, y.sum()


def views_of_views(x):
    rows = x.numpy().T[1:]
    rows += 10
    back = torch.from_numpy(rows)
    back[0].zero_()
    return rows, back, x


def two_results_on_one_memory(x):
    y = x.exp()
    return y, y.numpy(), y.numpy()[1:], torch.from_numpy(y.numpy())


def only_the_view(x):
    return (x * 3).numpy()[::2]


@pytest.mark.parametrize(
    "function", [write_through_the_array, write_through_the_tensor, write_to_a_result, only_the_view]
)
def test_writes_are_seen(function):
    check(function, f32(5))


@pytest.mark.parametrize("function", [write_to_an_argument, write_to_the_array_of_a_tensor])
def test_writes_to_arrays_are_seen(function):
    check(function, f64(5))


@pytest.mark.parametrize("function", [views_of_views, two_results_on_one_memory])
def test_views_share_memory(function):
    check(function, f32(3, 4))


def test_one_memory_in_two_arguments():
    def f(a, t):
        a += 1
        return t * 2

    compiled = cdynamo.optimize(f)
    for _ in range(2):
        a = np.ones(3)
        np.testing.assert_array_equal(compiled(a, torch.from_numpy(a)), [4, 4, 4])
        a, t = np.ones(3), torch.ones(3, dtype=torch.float64)
        np.testing.assert_array_equal(compiled(a, t), [2, 2, 2])


# ---- gradients


def with_a_metric(w, x, target):
    prediction = torch.tanh(x @ w)
    loss = (prediction - target).square().mean()
    error = np.abs(prediction.detach().numpy() - target.numpy())
    return loss, error.max(), error.mean(axis=0)


def weights_of_numpy(w, x, target):
    weights = np.exp(-np.abs(target.numpy()))
    weights /= weights.sum()
    return ((x @ w - target).square() * torch.from_numpy(weights)).sum(), weights


def through_a_cut(w, x, target):
    scale = float(np.linalg.norm(w.detach().numpy()))
    return (w / scale).sum() + (x @ w).sum()


def numbers_of_numpy(w, x, target):
    return (w * target.numpy().mean()).sum() * np.float64(0.5)


def numbers_that_are_returned(w, x, target):
    largest = target.numpy().max()
    return w * largest, largest, w * target.sum().item(), target.sum().item()


def under_no_grad(w, x, target):
    with torch.no_grad():
        a = w.numpy() * 2
    return (w * torch.from_numpy(a)).sum(), a


@pytest.mark.parametrize(
    "function",
    [with_a_metric, weights_of_numpy, through_a_cut, numbers_of_numpy, numbers_that_are_returned, under_no_grad],
)
def test_gradients_flow_through_the_torch_part(function):
    check(function, leaf(3, 2), f32(4, 3), f32(4, 2) / 2)


def test_arrays_as_data():
    def step(w, batch, labels):
        x = torch.from_numpy(batch).float() / 255
        logits = x @ w
        loss = torch.nn.functional.cross_entropy(logits, torch.as_tensor(labels))
        correct = (logits.detach().numpy().argmax(axis=1) == labels).mean()
        return loss, correct

    images = np.arange(24, dtype=np.uint8).reshape(4, 6) * 10
    check(step, leaf(6, 3), images, np.array([0, 2, 1, 1]))


def read_backwards(w, a):
    return w * torch.from_numpy(a * 2), w * torch.from_numpy(a.copy()), a / 2


@pytest.mark.parametrize("view", [lambda a: a[::-1], lambda a: a[:, ::-1], lambda a: np.broadcast_to(a[0], (3, 3))])
def test_arrays_that_no_tensor_shares_memory_with(view):
    compiled = cdynamo.optimize(read_backwards, fullgraph=True)
    for _ in range(2):
        ours, theirs = leaf(3, 3), leaf(3, 3)
        got, expected = compiled(ours, view(f64(3, 3))), read_backwards(theirs, view(f64(3, 3)))
        assert_equal(got, expected)
        torch.testing.assert_close(backward(got, ours), backward(expected, theirs))


def test_writes_past_the_gradient():
    def f(w, x):
        w.detach().numpy()[0] = 3
        return x * 2

    check(f, leaf(3), f32(3))


def after_it_was_read(w, x):
    y = x * 2
    z = w * y
    y.numpy()[0] = 100
    return z


def after_it_was_shared(w, x):
    a = np.ones(3, dtype=np.float32)
    z = w * torch.from_numpy(a) * x
    a += 1
    return z


def to_an_input(w, x):
    z = w * x
    x.numpy()[0] = 100
    return z


def to_an_array(w, x):
    return numpy_input(w, x.numpy())


def numpy_input(w, a):
    z = w * torch.from_numpy(a)
    a += 1
    return z


def to_what_is_copied(w, x):
    z = (w * (x * 2).exp()) ** 2
    x.numpy()[0] = 100
    return z


@pytest.mark.parametrize(
    "function", [after_it_was_read, after_it_was_shared, to_an_input, to_an_array, to_what_is_copied]
)
def test_a_backward_reads_what_numpy_has_written(function):
    check(function, leaf(3), f32(3), fullgraph=False)


def test_a_backward_reads_what_was_written_to_an_array():
    check(numpy_input, leaf(3), f32(3).numpy(), fullgraph=False)


def test_no_derivative_is_left_out():
    def f(a):
        return (torch.from_numpy(a) ** 2).numpy().sum()

    with pytest.raises(cdynamo.GraphBreakError):
        cdynamo.grad(f)(f64(3))


def test_training_with_data_of_numpy():
    def train(step):
        torch.manual_seed(0)
        generator = np.random.default_rng(0)
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        history = []
        compiled = step(model)
        for _ in range(5):
            x = generator.normal(size=(8, 3)).astype(np.float32)
            y = x.sum(axis=1, keepdims=True)
            optimizer.zero_grad()
            loss, worst = compiled(x, y)
            loss.backward()
            optimizer.step()
            history.append((loss.item(), float(worst)))
        return history

    def step(model):
        def run(x, y):
            prediction = model(torch.from_numpy(x))
            loss = torch.nn.functional.mse_loss(prediction, torch.from_numpy(y))
            return loss, np.abs(prediction.detach().numpy() - y).max()

        return run

    got = train(lambda model: cdynamo.optimize(step(model), fullgraph=True))
    np.testing.assert_allclose(got, train(step), rtol=1e-5)


# ---- whole programs


def policy_step(state, weights):
    """An environment in NumPy, a policy in torch."""
    observation = torch.as_tensor(state, dtype=torch.float32)
    action = torch.tanh(weights @ observation).numpy()
    position, velocity = state[0], state[1]
    velocity = velocity + 0.1 * float(action[0]) - 0.05 * np.sin(position)
    state = np.array([position + velocity, velocity])
    reward = -np.abs(state).sum()
    return state, reward


def normalized(image):
    image = (image.astype(np.float32) - image.mean()) / image.std()
    return torch.from_numpy(image).permute(1, 0).contiguous().numpy()


def attention_mask(x):
    mask = np.tril(np.ones((x.shape[0], x.shape[0]), dtype=bool))
    scores = (x @ x.T).masked_fill(~torch.from_numpy(mask), float("-inf"))
    return torch.softmax(scores, -1).numpy()


def positions(x):
    position = np.arange(x.shape[0])[:, None] / 10000 ** (np.arange(x.shape[1])[None] / x.shape[1])
    return x + torch.from_numpy(np.sin(position)).to(x.dtype)


def discounted(rewards, values):
    returns, running = np.zeros_like(rewards), 0.0
    for t in reversed(range(len(rewards))):
        running = rewards[t] + 0.9 * running
        returns[t] = running
    advantage = torch.from_numpy(returns).float() - values
    return (advantage - advantage.mean()) / advantage.std()


PROGRAMS = [
    (policy_step, f64(2), f32(1, 2)),
    (normalized, np.arange(12, dtype=np.uint8).reshape(3, 4)),
    (attention_mask, f32(4, 3)),
    (positions, f32(4, 6)),
    (discounted, f64(5), f32(5)),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda row: row[0].__name__)
def test_a_program(program):
    check(*program, calls=1 if program[0] is policy_step else 2)


def test_sizes_that_change(counts):
    def f(a, x):
        return torch.from_numpy(np.cumsum(a) * 2)[: x.shape[0]] + x, x.numpy().sum()

    compiled = cdynamo.optimize(f, fullgraph=True)
    for n in range(3, 8):
        assert_equal(compiled(f64(n), f32(n)), f(f64(n), f32(n)))
    assert counts.recompiles == 1


def test_a_rollout():
    rollout = cdynamo.optimize(policy_step, fullgraph=READS_NUMBERS)
    mine = theirs = np.array([0.1, 0.2])
    for _ in range(5):
        (mine, ours), (theirs, reward) = rollout(mine, f32(1, 2)), policy_step(theirs, f32(1, 2))
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
        np.testing.assert_allclose(ours, reward, rtol=1e-6)


# ---- errors are eager's


def a_float32_for_an_item(x):
    x[0] = x.numpy().max()


def a_known_float32_for_an_item(x):
    x[0] = np.float32(2)


@pytest.mark.parametrize(
    "function, arg",
    [
        (lambda x: x.numpy(), leaf(3)),
        (lambda x: np.asarray(x * 2), leaf(3)),
        (lambda x: np.sin(x), leaf(3)),
        (lambda x: x + np.ones(3), leaf(3)),
        (lambda x: x.to(torch.bfloat16).numpy(), f32(3)),
        (lambda x: torch.from_numpy(x), f32(3)),
        (lambda x: torch.from_numpy(np.float64(3)) + x, f32(3)),
        (lambda a: torch.from_numpy(a[::-1]), f64(3)),
        (lambda a: torch.sin(a), f64(3)),
        (lambda a: torch.stack([torch.ones(3), a]), f64(3)),
        (lambda a: a + torch.ones(3), f64(3)),
        (lambda a: a @ torch.ones(3), f64(3)),
        (lambda a: a < torch.ones(3), f64(3)),
        (lambda a: torch.ones(3).__setitem__(slice(None), a), f64(3)),
        (a_float32_for_an_item, f32(3)),
        (a_known_float32_for_an_item, f32(3)),
        (lambda x: np.sum(x), f32(3)),
        (lambda x: x.sum().numpy().mean(axis=-1), f32(3)),
        (lambda x: np.asarray(x.sum()).std(axis=0), f32(3)),
        (lambda x: x.sum().numpy().sum(axis=1), f32(3)),
        (lambda x: np.add(x, x, out=x), f32(3)),
    ],
    ids=range(21),
)
def test_errors(function, arg):
    with pytest.raises(Exception) as expected:
        function(arg)
    with pytest.raises(Exception) as got:
        cdynamo.optimize(function)(arg)
    assert (type(got.value), str(got.value)) == (type(expected.value), str(expected.value))


def test_an_error_that_is_caught():
    def f(x):
        try:
            a = x.numpy()
        except RuntimeError:
            a = x.detach().numpy() * 2
        return a

    check(f, leaf(3))


# ---- what backends get


@pytest.mark.parametrize("trace", [False, True])
def test_a_backend_gets_a_graph_of_tensors(trace):
    seen = []

    def backend(module, inputs):
        seen.append((module, [type(x) for x in inputs]))
        if not trace:
            return module
        from torch.fx.experimental.proxy_tensor import make_fx

        traced = make_fx(module, tracing_mode="fake")(*inputs)
        assert all(isinstance(n.target, (str, torch._ops.OpOverload)) for n in traced.graph.nodes if n.op != "output")
        return traced

    def f(x, a):
        y = torch.from_numpy(np.sin(x.numpy()) + a)
        copied = torch.tensor(a) * torch.as_tensor(a, dtype=torch.float32)
        return y * 2, y.numpy().sum(axis=0), copied, x * a.sum(), x.sum() + a.sum(), x[np.array([1, 0])]

    compiled = cdynamo.optimize(f, backend=backend, fullgraph=True)
    assert_equal(compiled(f32(2, 3), f64(2, 3)), f(f32(2, 3), f64(2, 3)))
    (module, kinds) = seen[0]
    assert isinstance(module, torch.fx.GraphModule) and set(kinds) == {torch.Tensor}


def test_a_numpy_number_that_a_backward_reads():
    def f(x, n):
        return x * n, n + 1

    compiled = cdynamo.optimize(f)
    for n in (2.0, 3.0, 4.5):
        x = torch.arange(3.0, dtype=torch.float64).requires_grad_()
        result, more = compiled(x, np.float64(n))
        expected, expected_more = f(x, np.float64(n))
        assert torch.equal(result, expected)
        assert type(more) is type(expected_more) and more == expected_more
        result.sum().backward()
        assert x.grad.tolist() == [n] * 3


@pytest.mark.parametrize("requires_grad", [False, True])
def test_from_numpy_of_a_part_has_a_storage_that_begins_there(requires_grad):
    """Rows of one result: PyTorch does not know that arrays are parts of others."""

    def rows(x):
        return [torch.from_numpy(row.detach().numpy()) for row in (x + 1)[:, 1:]]

    x = torch.arange(20.0).reshape(4, 5).requires_grad_(requires_grad)
    for got, expected in zip(cdynamo.optimize(rows, fullgraph=True)(x), rows(x), strict=True):
        assert torch.equal(got, expected)
        assert got._base is None and got.storage_offset() == 0
        assert got.untyped_storage().nbytes() == expected.untyped_storage().nbytes()


def test_a_tensor_of_an_array_without_elements():
    """NumPy's strides of it are 0, and PyTorch names them in an error (the fuzz)."""

    def f(x):
        return torch.from_numpy((x + 1).numpy())

    x = torch.arange(0).reshape(0, 16)
    assert cdynamo.optimize(f)(x).stride() == f(x).stride()


@pytest.mark.parametrize("dtype", [np.bool_, np.float32])
def test_a_scalar_of_numpy_s_that_is_no_index(dtype):
    def f(x, y):
        x[dtype(y.numpy().sum() > 1)] = 1
        return x

    for function in f, cdynamo.optimize(f):
        with pytest.raises(IndexError, match=f"got numpy.{dtype.__name__.rstrip('_')}") as raised:
            function(f32(4), f32(4))
        assert [entry.name for entry in raised.traceback][1:] == ["f"]


@pytest.mark.parametrize("shape", [(2,), (1, 3), ()])
def test_a_size_is_an_index_as_a_tuple(shape):
    tensor = torch.arange(12.0).view(3, 4)
    size, point = torch.Size(shape), collections.namedtuple("Point", "x y")(1, 2)

    def f(x, key):
        y = x + 0
        y[key] = -1
        return x[key], y, x[point], x[tensor[0, : len(key)].shape]

    for x in (tensor, tensor.numpy()):
        for found, expected in zip(cdynamo.optimize(f)(x, size), f(x, size), strict=True):
            assert type(found) is type(expected)
            assert found.shape == expected.shape and (found == expected).all()
