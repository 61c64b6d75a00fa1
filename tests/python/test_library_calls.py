"""Operators without an entry in the table are nodes of the graph that call PyTorch."""

import pytest

import cdynamo

torch = pytest.importorskip("torch")
from training_check import assert_same  # noqa: E402


def one_graph(f, *args, breaks=0, **kwargs):
    """f's result as eager's in values, dtypes, sizes and strides, from one graph, twice."""
    compiled = cdynamo.optimize(f)
    before = cdynamo.counters()
    expected = f(*args, **kwargs)
    for _ in range(2):
        assert_same(compiled(*args, **kwargs), expected)
    after = cdynamo.counters()
    assert after["graph_breaks"] - before["graph_breaks"] == breaks
    if not breaks:
        assert after["graphs_compiled"] - before["graphs_compiled"] == 1
        assert after["library_calls_compiled"] > before["library_calls_compiled"]
    return compiled


@pytest.fixture
def matrix():
    torch.manual_seed(0)
    x = torch.randn(6, 6)
    return x @ x.T + torch.eye(6)


@pytest.mark.native
@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.linalg.inv(x * 2) + 1,
        lambda x: torch.linalg.qr(x + 1),
        lambda x: torch.linalg.eigh(x).eigenvalues.sum(),
        lambda x: torch.linalg.solve(x, (x + 1)[:, :2]),
        lambda x: torch.linalg.cholesky(x).T * 2,
        lambda x: torch.searchsorted(x[0].sort().values, x.relu()),
        lambda x: x.kthvalue(2, dim=0).values * 2,
        lambda x: torch.special.bessel_j0(x * 3),
        lambda x: torch.special.i1(x) + torch.i0(x.T),
        lambda x: torch.nn.functional.grid_sample(x[None, None], x.tanh()[None, None, :, :2], align_corners=False),
        lambda x: torch.ops.aten.hypot.default(x, x + 1),
        lambda x: torch.quantile(x, torch.tensor([0.1, 0.5]), dim=1),
    ],
)
def test_results_are_eager_s(f, matrix):
    one_graph(f, matrix)
    one_graph(f, matrix.T)


@pytest.mark.native
def test_operands_are_laid_out_as_in_eager():
    x = torch.randn(4, 5, 6)
    one_graph(lambda x: torch.special.airy_ai((x * 2).permute(2, 0, 1)), x)
    one_graph(lambda x: torch.special.airy_ai((x * 2)[:, None].expand(4, 3, 5, 6)), x)
    one_graph(lambda x: torch.igamma(x.abs().mT, x.abs().mT + 1), x)


@pytest.mark.native
def test_graphs_name_them_as_pytorch_does(matrix):
    explanation = cdynamo.explain(lambda x: torch.linalg.qr(x, mode="complete")[0])(matrix)
    assert "aten::linalg_qr(%x, mode='complete')" in explanation.graphs[0]
    assert explanation.frames[0].library_calls == 1
    module = explanation.stage("inference")[0].to_fx()
    assert_same(module(matrix)[0], torch.linalg.qr(matrix, mode="complete")[0])


def test_backends_in_python_get_the_user_s_call(matrix):
    targets = []

    def backend(module, inputs):
        targets.extend(node.target for node in module.graph.nodes)
        return module

    def f(x):
        return torch.linalg.inv(x).sort()[0]

    for chosen in (backend, "eager"):
        assert_same(cdynamo.optimize(f, backend=chosen)(matrix), f(matrix))
    assert torch.linalg.inv in targets and "sort" in targets


def test_errors_are_eager_s_and_may_be_caught(matrix):
    def caught(x, y):
        y.add_(1)
        try:
            return torch.linalg.cholesky(x)
        except torch.linalg.LinAlgError:
            return x * 0

    bad = -matrix
    with pytest.raises(torch.linalg.LinAlgError):
        cdynamo.optimize(lambda x: torch.linalg.cholesky(x) + 1)(bad)
    compiled = cdynamo.optimize(caught)
    for x in (matrix, bad, matrix):
        a, b = torch.zeros(3), torch.zeros(3)
        assert_same(compiled(x, a), caught(x, b))
        assert_same(a, b)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.clone().unsqueeze_(0),
        lambda x: x.clone().view(torch.complex64),
    ],
)
def test_what_a_node_cannot_do_breaks_the_graph(f, matrix):
    compiled = cdynamo.optimize(f)
    for _ in range(2):
        assert_same(compiled(matrix), f(matrix))
    assert cdynamo.explain(f)(matrix).breaks


def test_views_break_the_graph(matrix):
    def f(x):
        y = x * 2
        torch.as_strided(y, (3,), (2,)).zero_()
        return y

    assert_same(cdynamo.optimize(f)(matrix), f(matrix))


@pytest.mark.native
def test_gradients_are_pytorch_s(matrix):
    def f(x):
        y = x * 2
        return (torch.linalg.inv(y) * torch.argsort(y, dim=1)).sum()

    x, y = matrix.clone().requires_grad_(), matrix.clone().requires_grad_()
    f(x).backward()
    cdynamo.optimize(f)(y).backward()
    assert_same(y.grad, x.grad)
    with torch.no_grad():
        one_graph(f, x)


@pytest.mark.native
def test_gradients_in_one_graph(matrix):
    def f(x):
        return (torch.linalg.inv(x * 2) * x.sin()).sum() + torch.logcumsumexp(x.tanh(), 1).mean()

    x, y = matrix.clone().requires_grad_(), matrix.clone().requires_grad_()
    compiled = cdynamo.optimize(f, fullgraph=True)
    expected = torch.autograd.grad(f(x), x, create_graph=True)
    got = torch.autograd.grad(compiled(y), y, create_graph=True)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(
        torch.autograd.grad(got[0].square().sum(), y), torch.autograd.grad(expected[0].square().sum(), x)
    )
    (backward,) = cdynamo.explain(f)(y).stage("backward")
    assert "aten::linalg_inv_backward(" in backward.print_readable(print_output=False)


SPD = torch.eye(4, dtype=torch.float64) * 4 + torch.arange(16.0, dtype=torch.float64).view(4, 4).sin() / 4


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.linalg.cholesky(x @ x.T),
        lambda x: torch.linalg.det(x) * x,
        lambda x: torch.linalg.slogdet(x)[1] + x.exp(),
        lambda x: torch.linalg.solve_triangular(x.tril(), x[:, :2], upper=False),
        lambda x: torch.linalg.qr(x)[1] * x,
        lambda x: torch.linalg.svdvals(x * 2),
        lambda x: torch.linalg.pinv(x[:, :3]),
        lambda x: torch.matrix_exp(x / 4) @ x,
        lambda x: torch.cholesky_solve(x[:, :1], torch.linalg.cholesky(x @ x.T)),
        lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2),
        lambda x: torch.fft.fft2(x).abs(),
        lambda x: torch.fft.hfft(x),
    ],
)
@pytest.mark.parametrize("backend", ["native", "eager"])
def test_gradients_that_lie_otherwise_are_in_one_graph_where_it_is_demanded(f, backend):
    x, y = SPD.clone().requires_grad_(), SPD.clone().requires_grad_()
    want, got = f(x * 1.5), cdynamo.optimize(lambda y: f(y * 1.5), fullgraph=True, backend=backend)(y)
    torch.testing.assert_close(got, want)
    seed = torch.ones_like(want)
    torch.testing.assert_close(torch.autograd.grad(got, y, seed), torch.autograd.grad(want, x, seed))
    # Of a leaf, where the gradient of the call is what the program gets.
    cdynamo.optimize(f, fullgraph=True, backend=backend)(y).square().sum().backward()
    f(x).square().sum().backward()
    torch.testing.assert_close(y.grad, x.grad)
    assert y.grad.stride() == x.grad.stride()


def test_results_without_gradient_stay_in_the_graph(matrix):
    def f(x):
        index = torch.argsort(x, dim=1, stable=True)
        return x.gather(1, index).cumsum(1).sum()

    x, y = matrix.clone().requires_grad_(), matrix.clone().requires_grad_()
    compiled = cdynamo.optimize(f, fullgraph=True)
    f(x).backward()
    compiled(y).backward()
    assert_same(y.grad, x.grad)


@pytest.mark.native
def test_no_gradient_is_taken_for_zero(matrix):
    def f(x):
        return (torch.linalg.inv(x) * x).sum()

    expected = torch.func.grad(f)(matrix)
    torch.testing.assert_close(cdynamo.grad(f)(matrix), expected)


def test_sizes_that_change():
    def f(x):
        return (torch.logcumsumexp(x * 2, 0) + 1).sum(0)

    compiled = cdynamo.optimize(f)
    for n in (3, 4, 7, 9, 4):
        x = torch.randn(n, 5)
        assert_same(compiled(x), f(x))


def test_order_among_random_numbers():
    def f(x):
        a = torch.rand(4)
        b = torch.special.airy_ai(x + a)
        return b + torch.rand(4)

    x = torch.randn(4)
    torch.manual_seed(3)
    expected = f(x)
    torch.manual_seed(3)
    assert_same(cdynamo.optimize(f)(x), expected)


class TestCustomOperators:
    @pytest.fixture
    def library(self):
        library = torch.library.Library("cdynamo_test", "DEF")
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        library.impl("twice", lambda x: torch.empty_like(x), "Meta")
        library.define("fill(Tensor(a!) x) -> ()")
        library.impl("fill", lambda x: [x.fill_(7), None][1], "CPU")
        library.impl("fill", lambda x: None, "Meta")
        library.define("turned(Tensor x) -> Tensor")
        library.impl("turned", lambda x: x.T.contiguous().T, "CPU")
        library.impl("turned", lambda x: torch.empty_like(x), "Meta")  # other strides than on the CPU
        library.define("let_go(Tensor x) -> Tensor")
        library.impl("let_go", lambda x: [x * 2, self.holder.clear()][0], "CPU")
        library.impl("let_go", lambda x: torch.empty_like(x), "Meta")
        yield library
        library._destroy()

    @pytest.mark.native
    def test_are_nodes(self, library, matrix):
        one_graph(lambda x: torch.ops.cdynamo_test.twice(x + 1) * 3, matrix)
        one_graph(lambda x: torch.ops.cdynamo_test.twice.default(x + 1) * 3, matrix)

    def test_that_write_break_the_graph(self, library, matrix):
        def f(x):
            y = x + 1
            torch.ops.cdynamo_test.fill(y)
            return y * 2

        assert_same(cdynamo.optimize(f)(matrix), f(matrix))

    @pytest.mark.parametrize("requires_grad", [False, True])
    def test_that_let_go_of_what_the_graph_reads(self, library, matrix, requires_grad):
        def f(x):
            weight = self.holder["weight"]
            y = torch.ops.cdynamo_test.let_go(x + 1)
            return weight, weight[1:], y * weight

        compiled = cdynamo.optimize(f)
        for _ in range(3):
            self.holder = {"weight": matrix.clone().requires_grad_(requires_grad)}
            expected = f(matrix)
            self.holder = {"weight": matrix.clone().requires_grad_(requires_grad)}
            assert_same(compiled(matrix), expected)
            assert not self.holder

    @pytest.mark.native
    def test_that_were_foreseen_wrongly(self, library, matrix):
        def f(x):
            return torch.ops.cdynamo_test.turned(x + 1)

        compiled = cdynamo.optimize(f)
        before = cdynamo.counters()["graphs_compiled"]
        for _ in range(4):
            assert_same(compiled(matrix), f(matrix))
        assert cdynamo.counters()["graphs_compiled"] - before == 2


def test_reversed_operands_are_copied(matrix):
    for f in (
        lambda x: torch.linalg.inv(x.flip(0)),
        lambda x: torch.median(x.flip(1)[0, ::2]),
        lambda x: x.bfloat16().flip(0) @ x.bfloat16().flip(1),
        lambda x: x.half() @ x.half().flip(0),
    ):
        cdynamo.reset()
        assert_same(cdynamo.optimize(f)(matrix), f(matrix))


@pytest.mark.native
def test_a_constant_goes_to_the_library():
    """What is filled has no operand to look at."""

    def f(x):
        out, indices = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
        backward = torch.ops.aten.max_pool2d_with_indices_backward
        return backward(torch.ones_like(out), x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices)

    one_graph(f, torch.randn(1, 2, 6, 6))


def test_results_are_handed_over():
    """A plan asks for a tensor of its own by the type that it foresees; nobody else may have its memory."""
    from cdynamo._library.tensors import hand_over

    given = torch.arange(6.0).reshape(2, 3)

    def wanted(*strides):
        return torch.float32, (2, 3), strides, torch.device("cpu")

    planned, shared = torch.empty(2, 3), given + 1
    outputs = [planned, None, wanted(3, 1), wanted(1, 2), *[wanted(3, 1)] * 5]
    view = (torch.arange(9.0).reshape(3, 3) + 5)[1:]
    results = [given, given, shared, given + 2, given, shared, None, (given + 3).to(torch.float64), view]
    found = hand_over([given], outputs, results)
    assert found[0] is found[1] is None and torch.equal(planned, given)
    assert found[2] is shared
    assert found[3].stride() == (1, 2) and torch.equal(found[3], given + 2)
    for i, expected in ((4, given), (5, shared), (6, torch.zeros(2, 3)), (7, given + 3), (8, view)):
        assert torch.equal(found[i], expected) and found[i].dtype == torch.float32 and not found[i]._is_view()
    assert len({x.data_ptr() for x in (given, *found[2:])}) == 8 and found[8].data_ptr() == view.data_ptr()


@pytest.mark.parametrize("backend", ["native", "eager", lambda gm, inputs: gm.forward])
def test_results_of_nothing(backend):
    """They may lie otherwise than PyTorch's metadata functions say."""

    def strides(x):
        return x.sort().values.stride(), x.sort(0).indices.stride(), torch.linalg.inv(x[:0, :0]).stride()

    compiled = cdynamo.optimize(strides, backend=backend)
    for x in (torch.empty(0, 33).t(), torch.empty(0, 5), torch.empty(5, 0), torch.empty(0, 5).t()):
        assert compiled(x) == strides(x)


@pytest.mark.parametrize(
    "f, shapes",
    [
        (lambda x: torch.t_copy(x), [(1, 2)]),
        (lambda x: torch.t_copy(x), [(2, 1)]),
        (torch.linalg.solve, [(5, 5), (5, 1)]),
        (torch.linalg.solve, [(3, 5, 5), (3, 5, 1)]),
        (lambda a, b: torch.linalg.solve_triangular(a.tril() + 3, b, upper=False), [(3, 3), (3, 1)]),
    ],
)
def test_gradients_lie_as_eagers(f, shapes):
    def gradients(run):
        torch.manual_seed(0)
        inputs = [torch.randn(shape, requires_grad=True) for shape in shapes]
        result = run(*inputs)
        return torch.autograd.grad(result, inputs, torch.ones_like(result))

    assert_same(gradients(cdynamo.optimize(f)), gradients(f))


CTC_TARGETS = torch.tensor([[1, 2], [2, 1], [1, 3]])


@pytest.mark.native
@pytest.mark.parametrize(
    "loss",
    [
        lambda x, n: torch.nn.functional.ctc_loss(x, CTC_TARGETS, torch.full((3,), x.shape[0]), n),
        lambda x, n: torch.nn.CTCLoss(blank=3, reduction="sum", zero_infinity=True)(
            x, CTC_TARGETS, (5,) * 3, (2, 1, 2)
        ),
        lambda x, n: torch.nn.functional.ctc_loss(
            x, CTC_TARGETS.view(-1)[:5], torch.tensor([5, 4, 5]), n, reduction="none"
        ),
        lambda x, n: torch.nn.functional.ctc_loss(x[:, 0], CTC_TARGETS[0], torch.tensor(5), n.sum() * 0 + 2),
        lambda x, n: torch.ctc_loss(x, CTC_TARGETS, (5, 5, 5), (2, 2, 1)),
    ],
)
def test_ctc_loss_is_one_graph(loss):
    """Its lengths are read by PyTorch, and say nothing of the sizes of what it gives."""

    def f(x, lengths):
        return loss(x.transpose(0, 1).log_softmax(-1), lengths) * 2

    compiled = cdynamo.optimize(f, fullgraph=True)
    for lengths in ([2, 1, 2], [2, 1, 2], [1, 2, 2]):
        x, lengths = torch.randn(3, 5, 4), torch.tensor(lengths)
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        expected, got = f(a, lengths), compiled(b, lengths)
        torch.testing.assert_close(got, expected)
        torch.testing.assert_close(torch.autograd.grad(got.sum(), b), torch.autograd.grad(expected.sum(), a))


def test_lengths_that_ctc_loss_refuses_are_eagers():
    def f(x, lengths):
        try:
            return torch.nn.functional.ctc_loss(x, CTC_TARGETS, torch.tensor([9, 9, 9]), lengths)
        except RuntimeError as error:
            return str(error).split(",")[0]

    x, lengths = torch.randn(5, 3, 4).log_softmax(-1), torch.tensor([2, 1, 2])
    assert cdynamo.optimize(f)(x, lengths) == f(x, lengths)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.as_strided_copy(x, (2, 2), (1, 2)),
        lambda x: torch.as_strided_scatter(x, torch.ones(2, 2), (2, 2), (1, 2), 1),
        lambda x: torch.ops.aten.as_strided_copy.default(x, (2, 2), (1, 2)),
        lambda x: torch.ops.aten.as_strided.default(x, (2, 2), (1, 2)) + 1,
    ],
)
def test_what_reads_memory_past_its_argument(f):
    whole = torch.arange(48.0)
    for x in whole[:16].view(4, 4), whole[16:32].view(4, 4), whole[::3].view(4, 4), whole[:16].view(4, 4).T[1:]:
        assert_same(cdynamo.optimize(f)(x), f(x))
