"""torch.vmap and the Jacobians of torch.func inside of a compiled function: one graph, and what eager gives."""

from __future__ import annotations

import copy

import pytest

import cdynamo

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import func, nn  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402
from training_check import assert_same, check  # noqa: E402

pytestmark = pytest.mark.native  # for a backend in Python they are left to eager
vmap = torch.vmap


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


class Inputs:
    """By name, each anew for each test."""

    def __init__(self):
        generator = torch.Generator().manual_seed(3)

        def randn(*sizes):
            return torch.randn(*sizes, generator=generator)

        self.x, self.y, self.w = randn(5, 3), randn(3), randn(4, 3)
        self.i = torch.randint(0, 4, (5,), generator=generator)
        self.a, self.b = randn(5, 3, 4), randn(5, 4, 2)
        self.images, self.kernel, self.kernels = randn(5, 2, 6, 6), randn(4, 2, 3, 3), randn(5, 4, 2, 3, 3)
        self.q = randn(3, 2, 2, 4, 8)
        self.mask = randn(3, 4) > 0


def conv(image, kernel):
    return F.conv2d(image[None], kernel, padding=1)[0]


def in_place(r):
    r = r * 2
    r[1:] = r[:-1].clone()
    return r.add_(1).mul_(r)


CASES = {
    "sort": lambda t: vmap(lambda r: r.sort())(t.x),
    "sort of what is computed": lambda t: vmap(lambda r: (r * t.y).sort(descending=True)[0] * r)(t.x),
    "argsort": lambda t: vmap(lambda r: r.gather(0, r.argsort()))(t.x),
    "topk": lambda t: vmap(lambda r: r.topk(2))(t.x),
    "median": lambda t: vmap(lambda r: r.median())(t.x),
    "kthvalue": lambda t: vmap(lambda m: m.kthvalue(2, 0))(t.a),
    "searchsorted": lambda t: vmap(lambda r: torch.searchsorted(t.y.sort()[0], r))(t.x),
    "bucketize": lambda t: vmap(lambda r: torch.bucketize(r, torch.tensor([-1.0, 0.0, 1.0])))(t.x),
    "scatter": lambda t: vmap(lambda r: torch.zeros(3).scatter(0, r.argsort(), r))(t.x),
    "quantile": lambda t: vmap(lambda r: r.quantile(0.5))(t.x),
    "sort twice": lambda t: vmap(vmap(lambda r: r.sort()[0]))(t.a),
    "a gradient through sort": lambda t: vmap(func.grad(lambda r: (r.sort()[0] * t.y).sum()))(t.x),
    "elements": lambda t: vmap(lambda r: r.sum() * r)(t.x),
    "what is shared": lambda t: vmap(lambda r: (r * t.y).sum())(t.x),
    "in_dims": lambda t: vmap(lambda r, m: torch.where(m > 0, r, 0 * r).sum(), in_dims=(0, None))(t.x, t.y),
    "out_dims": lambda t: vmap(lambda r: (r.sin(), r.sum()), out_dims=(1, 0))(t.x),
    "a negative out_dim": lambda t: vmap(lambda r: r.sin(), out_dims=-1)(t.x),
    "a dict": lambda t: vmap(lambda d: {"a": d["a"] * 2})({"a": t.x}),
    "dims of a dict": lambda t: vmap(lambda d: d["a"] * d["b"], in_dims=({"a": 0, "b": None},))({"a": t.x, "b": t.y}),
    "keyword arguments": lambda t: vmap(lambda r, by: r * by)(t.x, by=t.y),
    "nested": lambda t: vmap(vmap(lambda s: s * s + 1))(t.x),
    "in chunks": lambda t: vmap(lambda r, s: (r * 2 + s, r.sum()), in_dims=(0, None), out_dims=(1, 0), chunk_size=2)(
        t.x, t.y
    ),
    "in one chunk": lambda t: vmap(lambda r: r * 2, chunk_size=7)(t.x),
    "two batches": lambda t: vmap(vmap(torch.dot, (None, 0)), (0, None))(t.x, t.w),
    "half types": lambda t: vmap(lambda r: r * torch.tensor(1.5) + r.sum())(t.x.bfloat16()),
    "integers": lambda t: vmap(lambda j: (j == torch.arange(4)).float())(t.i),
    "mm": lambda t: vmap(torch.mm)(t.a, t.b),
    "one left factor": lambda t: vmap(lambda b: t.a[0] @ b)(t.b),
    "one right factor": lambda t: vmap(torch.mv, in_dims=(0, None))(t.a, t.b[0, :, 0]),
    "linear": lambda t: vmap(lambda r: F.linear(r, t.w))(t.x),
    "an ensemble": lambda t: vmap(lambda w: torch.tanh(t.a[0] @ w))(t.b),
    "baddbmm": lambda t: vmap(lambda a, b: torch.baddbmm(b[None, :3] * 2, a[None], b[None]))(t.a, t.b),
    "outer": lambda t: vmap(torch.outer, in_dims=(0, None))(t.x, t.y),
    "convolution": lambda t: vmap(conv, in_dims=(0, None))(t.images, t.kernel),
    "each its kernel": lambda t: vmap(conv)(t.images, t.kernels),
    "gradients of a kernel": lambda t: vmap(
        func.grad(lambda k, image: conv(image, k).square().sum()), in_dims=(None, 0)
    )(t.kernel, t.images),
    "attention": lambda t: vmap(lambda q: F.scaled_dot_product_attention(q, q, q))(t.q),
    "attention with a mask": lambda t: vmap(
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m)
    )(t.q, t.q[:, 0, 0, :, :4].contiguous()),
    "index": lambda t: vmap(lambda j: t.w[j])(t.i),
    "each its index": lambda t: vmap(lambda r, j: r[j % 3])(t.x, t.i),
    "index of each": lambda t: vmap(lambda r: r[torch.tensor([2, 0])])(t.x),
    "index_put": lambda t: vmap(lambda r, j: r.index_put((j[None] % 3,), r.sum()[None], accumulate=True))(t.x, t.i),
    "gather": lambda t: vmap(lambda r: r.gather(0, torch.tensor([0, 2])))(t.x),
    "scatter at known places": lambda t: vmap(lambda r: torch.zeros(4).scatter(0, torch.tensor([0, 2, 1]), r))(t.x),
    "embedding": lambda t: vmap(lambda j: F.embedding(j, t.w))(t.i),
    "softmax": lambda t: vmap(lambda r: r.softmax(0))(t.x),
    "cross_entropy": lambda t: vmap(lambda r, j: F.cross_entropy(r, j % 3))(t.x, t.i),
    "layer_norm": lambda t: vmap(lambda r: F.layer_norm(r, (3,)))(t.x),
    "max": lambda t: vmap(lambda r: r.max())(t.a),
    "max along a dim": lambda t: vmap(lambda r: tuple(r.max(0)))(t.a),
    "argmax": lambda t: vmap(lambda r: r.argmax())(t.a),
    "var": lambda t: vmap(lambda r: r.var())(t.x),
    "norm": lambda t: vmap(lambda r: r.norm())(t.x),
    "cumsum": lambda t: vmap(lambda r: r.cumsum(0))(t.x),
    "cat": lambda t: vmap(lambda r: torch.cat([r, t.y]))(t.x),
    "stack": lambda t: vmap(lambda r: torch.stack([r, t.y, r]))(t.x),
    "views": lambda t: vmap(lambda r: r.t().reshape(2, 6)[:, 1:].flip(0).expand(3, 2, 5) + 1)(t.a),
    "diagonal": lambda t: vmap(lambda r: r.diagonal() * 2)(t.a),
    "pad": lambda t: vmap(lambda r: F.pad(r, (1, 2)))(t.x),
    "pooling": lambda t: vmap(lambda r: F.max_pool2d(r, 2))(t.images),
    "in place": lambda t: vmap(in_place)(t.x),
    "a mask": lambda t: vmap(vmap(lambda b, q: (b >= q) & t.mask[b, q], (None, 0)), (0, None))(
        torch.arange(3), torch.arange(4)
    ),
    "gradients": lambda t: vmap(func.grad(lambda r: (r**3).sum()))(t.x),
    "gradients of each example": lambda t: vmap(
        func.grad(lambda w, r: F.linear(r, w).square().sum()), in_dims=(None, 0)
    )(t.w, t.x),
    "vjp": lambda t: vmap(lambda r: func.vjp(torch.sin, r)[1](r)[0])(t.x),
    "jacrev": lambda t: func.jacrev(lambda r: r.sin() * r.sum())(t.x),
    "jacrev in chunks": lambda t: func.jacrev(lambda r: r.sin() * r.sum(), chunk_size=2)(t.x),
    "jacfwd with a randomness": lambda t: func.jacfwd(lambda r: r.sin() * r.sum(), randomness="same")(t.x),
    "jacrev of two": lambda t: func.jacrev(lambda a, b: (a * b).sum(0), argnums=(0, 1))(t.x, t.y),
    "jacrev of a dict": lambda t: func.jacrev(lambda d: (d["a"].sin() * d["b"][0]).sum(1))({"a": t.x, "b": [t.y]}),
    "jacrev of several results": lambda t: func.jacrev(lambda r: (r.sin(), {"a": r.sum(0) * t.y}))(t.x),
    "jacfwd": lambda t: func.jacfwd(lambda r: r.sin() * r.sum())(t.x),
    "jacfwd of several results": lambda t: func.jacfwd(lambda r: (r.sin(), {"a": r.sum(0) * t.y}))(t.x),
    "hessian": lambda t: func.hessian(lambda r: (r**3).sum() * r[0])(t.y),
    "a batch of jacobians": lambda t: vmap(func.jacrev(lambda r: r.sin() * r.sum()))(t.x),
    "jvp": lambda t: func.jvp(lambda r: r.sin() * r, (t.x,), (t.x * 2,)),
    "jvp of two": lambda t: func.jvp(lambda a, b: (a * b, a.exp()), (t.x, t.y), (t.x * 2, t.y.cos())),
    "a gradient of a batch": lambda t: func.grad(lambda x: vmap(lambda r: (r * t.y).sin().sum())(x).sum())(t.x),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", CASES)
def test_batches(name):
    expected = CASES[name](Inputs())
    compiled = cdynamo.optimize(CASES[name], fullgraph=True)
    for _ in range(2):
        assert_same(tree_leaves(compiled(Inputs())), tree_leaves(expected), rtol=1e-4, atol=1e-5)


def persample_norms(w, x):
    gradients = vmap(func.grad(lambda w, r: F.linear(r, w).square().sum()), in_dims=(None, 0))(w, x)
    return gradients.flatten(1).norm(dim=1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: vmap(lambda r: (r * y).sin())(x),
        lambda x, y: vmap(lambda r: r.max() + r.softmax(0) @ y)(x),
        lambda x, y: vmap(lambda r: F.linear(r, x).cumsum(0), out_dims=1)(x),
        lambda x, y: vmap(func.grad(lambda r: (r * y).sin().sum()))(x),
        lambda x, y: vmap(lambda r: r.detach() * y)(x),
        lambda x, y: func.jacrev(lambda r: r.sin() * y)(x),
        lambda x, y: func.jacfwd(lambda r: r.sin() * y)(x),
        lambda x, y: persample_norms(x, x),
    ],
)
def test_gradients_flow_through(function):
    check(function, torch.randn(5, 3, requires_grad=True), torch.randn(3, requires_grad=True))
    check(function, torch.randn(5, 3), torch.randn(3, requires_grad=True))


def test_batches_of_several_sizes():
    compiled = cdynamo.optimize(persample_norms, fullgraph=True)
    before = cdynamo.counters()["graphs_compiled"]
    for rows in (4, 7, 9, 2):
        w, x = torch.randn(2, 3), torch.randn(rows, 3)
        torch.testing.assert_close(compiled(w, x), persample_norms(w, x))
    assert cdynamo.counters()["graphs_compiled"] - before == 2


def test_parameters_of_an_ensemble():
    networks = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(3)]
    parameters, buffers = func.stack_module_state(networks)

    def run(x):
        return vmap(lambda p, b: func.functional_call(networks[0], (p, b), (x,)))(parameters, buffers)

    x = torch.randn(6, 3)
    assert_same(cdynamo.optimize(run, fullgraph=True)(x), run(x), rtol=2e-5, atol=2e-6)


def writes_argument(r):
    r.add_(1)
    return r * 2


def writes_shared(r, to):
    to.add_(r)
    return r * 2


def test_what_eager_does_otherwise():
    """Views, writes to arguments and what is kept are eager's, with its errors."""
    kept = []

    def keeps(r):
        kept.append(r * 2)
        return r + 1

    def raises(r):
        if r.dim() == 1:
            raise ValueError("a row")
        return r

    cases = [
        lambda x: vmap(lambda r: r)(x).add_(1),
        lambda x: vmap(lambda r: r[1:])(x).add_(1),
        lambda x: vmap(lambda r: torch.ones(3))(x),
        lambda x: vmap(writes_argument)(x),
        lambda x: vmap(lambda r: writes_shared(r, torch.zeros(3)))(x),
        lambda x: vmap(lambda r: torch.rand(3) + r)(x),
        lambda x: vmap(lambda r: r.sum().item())(x),
        lambda x: vmap(lambda r: r + 1 if r.sum() > 0 else r - 1)(x),
        lambda x: vmap(lambda r: 3)(x),
        lambda x: vmap(lambda r: r, in_dims=2)(x),
        lambda x: vmap(lambda r, s: r + s)(x, x[1:]),
        lambda x: vmap(raises)(x),
        lambda x: vmap(lambda r: torch.from_numpy(r.numpy() * 2))(x),
        lambda x: vmap(lambda r: F.dropout(r, 0.5))(x),
        lambda x: vmap(lambda r: F.batch_norm(r[None], r.new_zeros(3), r.new_ones(3), training=True)[0])(x[None]),
        lambda x: vmap(lambda r: r.sort()[0])(x.repeat(20, 1))[:4],
        lambda x: vmap(lambda r: torch.linalg.inv(r.outer(r) + 9 * torch.eye(3)))(x),
        lambda x: vmap(lambda r: r * 2, in_dims=1)(x),
        lambda x: (vmap(keeps)(x), len(kept))[0],
        lambda x: vmap(lambda r: r * 2, chunk_size=0)(x),
        lambda x: func.jacrev(lambda r: (r.sin(), r.double()))(x),
        lambda x: func.jacrev(lambda r: r.sin(), chunk_size=0)(x),
        lambda x: func.jacfwd(lambda r: r.sin(), randomness="any")(x),
        lambda x: func.jacfwd(lambda r: r * torch.rand(3), randomness="same")(x),
        lambda x: func.jacrev(lambda r: (r.sin(), r), has_aux=True)(x),
        lambda x: func.jacrev(lambda r: r.new_ones(2))(x).sum(),
    ]
    for case in cases:
        x, ours = (torch.arange(12.0).reshape(4, 3) - 5 for _ in range(2))
        try:
            torch.manual_seed(0)
            expected = case(x)
        except Exception as error:
            with pytest.raises(type(error)) as compiled:
                cdynamo.optimize(case)(ours)
            assert str(compiled.value) == str(error)
        else:
            torch.manual_seed(0)
            assert_same(tree_leaves(cdynamo.optimize(case)(ours)), tree_leaves(expected))
        assert torch.equal(x, ours)
    assert len(kept) == 2


def test_what_is_kept_of_an_example_cannot_be_used():
    def leaks(x):
        kept = []
        result = vmap(lambda r: (kept.append(r * 2), r + 1)[1])(x)
        return result, len(kept)

    x = torch.randn(3, 2)
    result, count = cdynamo.optimize(leaks, fullgraph=True)(x)
    torch.testing.assert_close(result, x + 1)
    assert count == 1
    for use in (lambda kept, x: kept[0] + x, lambda kept, x: kept[0]):

        def used(x, use=use):
            kept = []
            vmap(lambda r: (kept.append(r * 2), r + 1)[1])(x)
            return use(kept, x)

        with pytest.raises(cdynamo.GraphBreakError, match="keeps what it computes"):
            cdynamo.optimize(used, fullgraph=True)(x)


def test_ensembles_on_a_model_without_memory():
    """torch.func.stack_module_state, and a copy of a model on the meta device that is called with each state."""
    models = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(3)]
    base = copy.deepcopy(models[0]).to("meta")
    parameters, buffers = func.stack_module_state(models)

    def one(parameters, buffers, x):
        return func.functional_call(base, (parameters, buffers), (x,))

    def each(x):
        return vmap(one, in_dims=(0, 0, None))(parameters, buffers, x)

    def stacked_inside(x):
        return vmap(one, in_dims=(0, 0, None))(*func.stack_module_state(models), x)

    def gradients(x):
        loss = lambda *given: one(*given).square().mean()
        fixed = {name: value.detach() for name, value in parameters.items()}
        return vmap(func.grad(loss), in_dims=(0, 0, None))(fixed, buffers, x)

    x = torch.randn(5, 3)
    for function in (each, gradients):
        assert_same(tree_leaves(cdynamo.optimize(function, fullgraph=True)(x)), tree_leaves(function(x)))
    torch.testing.assert_close(cdynamo.optimize(stacked_inside)(x), stacked_inside(x))
    assert all(parameter.device.type == "meta" for parameter in base.parameters())


def test_results_that_are_the_batch():
    x = torch.arange(6.0).view(2, 3)
    for function in (
        lambda x: vmap(lambda r: r)(x),
        lambda x: vmap(lambda r: (r, r.sin()), out_dims=(1, 0))(x)[0],
        lambda x: vmap(lambda r: r, chunk_size=1)(x),
        lambda x: vmap(lambda a, b: (b, a * b))(x, x + 1)[0],
    ):
        ours, theirs = x.clone(), x.clone()
        got, wanted = cdynamo.optimize(function, fullgraph=True)(ours), function(theirs)
        assert got.stride() == wanted.stride()
        got.mul_(2), wanted.mul_(2)
        assert torch.equal(got, wanted) and torch.equal(ours, theirs)


def test_reductions_of_two_batches_whose_size_changes():
    def totals(x, y):
        return vmap(lambda a, b: (a.sum(0), b.sum(0)))(x, y)

    compiled = cdynamo.optimize(totals, fullgraph=True)
    for size in (2, 5, 7):
        x, y = torch.randn(size, 3, 4), torch.randn(size, 3, 4)
        assert_same(tree_leaves(compiled(x, y)), tree_leaves(totals(x, y)))
