"""Library calls whose operands' sizes change from call to call: one graph for all sizes, where the results' sizes follow."""

import numpy as np
import pytest

import cdynamo
from cdynamo._sized_calls import SizedCall, Unfit, _fit, _tried

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.native

SIZES = (6, 9, 4, 7, 12, 5)


def cumulative(x):
    return (torch.logcumsumexp(x * 2, 0) + 1).sum(0), torch.cummax(x, 0)


def spectrum(x):
    return torch.fft.rfft(x, dim=0).abs() * 2, torch.fft.fft2(x).real


def distances(x):
    return torch.cdist(x, x[:3]) + 1, torch.cdist(x, x * 2).sum()


def matrices(x):
    return torch.linalg.matrix_exp(x[:, :4, None] * x[:, None, :4] * 0.1)


def transposed(x):
    return torch.special.airy_ai(x.t()), torch.special.airy_ai(x[1:])


def in_place(x):
    y = x.clone()
    y.put_(torch.tensor([0, 3]), torch.tensor([1.0, 2.0]))
    return y


PROGRAMS = [cumulative, spectrum, distances, matrices, transposed, in_place]


def check(f, inputs, **options):
    cdynamo.reset()
    compiled = cdynamo.optimize(f, fullgraph=True, **options)
    before = cdynamo.counters()["graphs_compiled"]
    for x in inputs:
        assert_same(compiled(x), f(x))
    return cdynamo.counters()["graphs_compiled"] - before


def assert_same(got, expected):
    assert type(got) is type(expected)
    if isinstance(expected, (tuple, list)):
        for mine, theirs in zip(got, expected, strict=True):
            assert_same(mine, theirs)
    elif isinstance(expected, torch.Tensor):
        assert got.stride() == expected.stride()
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9, strict=True)
        assert got.strides == expected.strides


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_torch(f):
    torch.manual_seed(0)
    assert check(f, [torch.randn(n, 5) for n in SIZES]) <= 2
    assert check(f, [torch.randn(n, 5) for n in SIZES], dynamic=True) <= 2


def test_gradients():
    def f(x):
        return (torch.logcumsumexp(x * 2, 0) * x).sum()

    compiled = cdynamo.optimize(f, fullgraph=True)
    before = cdynamo.counters()["graphs_compiled"]
    for n in SIZES:
        x, y = (torch.linspace(-1, 1, 3 * n).reshape(n, 3).requires_grad_() for _ in range(2))
        f(x).backward()
        compiled(y).backward()
        assert_same(y.grad, x.grad)
    assert cdynamo.counters()["graphs_compiled"] - before <= 2


def sort(a):
    return np.sort(a, axis=0) * 2, np.argsort(a[:, 0])


def transform(a):
    return np.abs(np.fft.rfft(a, axis=0)), np.fft.fft(a[:, 1]).imag


def filtered(a):
    return np.convolve(a[:, 0], np.ones(3)), np.convolve(a[:, 0], a[:3, 1], "valid")


def quantiles(a):
    return np.quantile(a, [0.25, 0.5], axis=0), np.median(a, axis=1) + 1


def linear(a):
    return np.linalg.inv(a.T @ a), np.linalg.norm(a, axis=1), np.einsum("ij,kj->ik", a, a)


@pytest.mark.parametrize("f", [sort, transform, filtered, quantiles, linear], ids=lambda f: f.__name__)
def test_numpy(f):
    rng = np.random.default_rng(0)
    assert check(f, [rng.normal(size=(n, 3)) for n in SIZES]) <= 2


def test_sizes_that_do_not_follow_are_compiled_one_by_one():
    def f(x):
        return torch.nn.functional.pdist(x) + 1

    assert check(f, [torch.randn(n, 3) for n in (3, 4, 5, 4, 3)]) == 3


def test_a_result_of_other_sizes_than_were_foreseen():
    library = torch.library.Library("cdynamo_sized", "DEF")
    library.define("head(Tensor x) -> Tensor")

    def head(x):
        return x[: min(x.shape[0], 30)] * 1.0

    library.impl("head", head, "CPU")
    library.impl("head", lambda x: torch.empty_like(x[: min(x.shape[0], 30)]), "Meta")

    def f(x):
        return torch.ops.cdynamo_sized.head(x) + 1

    check(f, [torch.randn(n, 2) for n in (5, 6, 7, 40, 50, 8, 41)])


def test_fit():
    tried = _tried((6, 4))
    assert _fit(tried, [2 * a + b - 3 for a, b in tried]) == (-3, (2, 1), None)
    assert _fit(tried, [a // 2 + 1 for a, _ in tried])[1:] == ((0, 0), (0, 0))
    assert _fit(tried, [(b + 1) // 2 + a for _, b in tried for a in [7]])[2] == (1, 1)
    for other in ([a * b for a, b in tried], [a // 3 for a, _ in tried], [min(a, 8) for a, _ in tried]):
        with pytest.raises(Unfit):
            _fit(tried, other)


def test_each_sizes_have_a_call_of_their_own():
    class Call:
        name = attributes = __name__ = ""
        stale = False

        def __init__(self, sizes):
            self.types = [(float, (sizes[0][0] + 1,), (1,))]

    made = []
    call = SizedCall(lambda sizes: made.append(sizes) or Call(sizes), [((0,), 3)], (5,))
    assert call.types == [(float, ((1, (1,), None),), (0,))]
    assert made[0] == ((5, 3),) and len(made) == 6


def test_operands_that_want_one_size():
    def torchs(x, y):
        return torch.nn.functional.multilabel_margin_loss(x.relu(), y.long(), reduction="none") * 2

    def numpys(x, y):
        return np.interp(x, np.sort(x), y) * 2

    for f, shape, make in ((torchs, (5,), torch.as_tensor), (numpys, (), np.asarray)):
        cdynamo.reset()
        compiled = cdynamo.optimize(f, fullgraph=True)
        before = cdynamo.counters()["graphs_compiled"]
        for rows in SIZES:
            x = make(np.random.default_rng(rows).normal(size=(rows, *shape)))
            assert_same(compiled(x, x > 0), f(x, x > 0))
        assert cdynamo.counters()["graphs_compiled"] - before == 2


WITHOUT_CONTENT = {
    "histogram": lambda x: torch.histogram(x, 4),
    "histogram of a range": lambda x: x.histogram(3, range=(0.0, 1.0), density=True),
    "histogram of weights": lambda x: torch.histogram(x, torch.tensor([0.0, 0.5, 1.0]), weight=x).hist * 2,
    "no bins": lambda x: torch.histogram(x, 0),
    "solutions": lambda x: torch.linalg.lstsq(x.mT, x.mT[:, :2], driver="gelsd").solution * 2,
    "of a vector": lambda x: torch.linalg.lstsq(x, x[:, 0]),
    "residuals": lambda x: torch.linalg.lstsq(x, x[:, 0] + 1, driver="gels").residuals * 2,
    "without full rank": lambda x: torch.linalg.lstsq(x * 0, x[:, 0], driver="gelsd"),
    "batches": lambda x: torch.linalg.lstsq(torch.stack([x.mT, x.mT + 1]), x.mT[None, :, :2]).rank,
    "other dtypes": lambda x: torch.linalg.lstsq(x.double(), x),
}
BREAKS = ("no bins", "other dtypes", "without full rank")


@pytest.mark.parametrize("name", WITHOUT_CONTENT)
@pytest.mark.parametrize("trains", [False, True])
def test_what_pytorch_cannot_call_without_content(name, trains):
    def run(f, x):
        try:
            result = f(x)
        except RuntimeError as error:
            return str(error), []
        parts = result if isinstance(result, tuple) else (result,)
        return (type(result), [(p.stride(), p.requires_grad) for p in parts]), [p.detach() for p in parts]

    f = WITHOUT_CONTENT[name]
    compiled = cdynamo.optimize(f)
    before = cdynamo.counters()["graph_breaks"]
    for rows in (5, 5, 6, 7):
        x = torch.rand(rows, 3, generator=torch.Generator().manual_seed(rows)).requires_grad_(trains)
        (got, numbers), (expected, expected_numbers) = run(compiled, x), run(f, x)
        assert got == expected
        torch.testing.assert_close(numbers, expected_numbers)
    assert trains or name in BREAKS or cdynamo.counters()["graph_breaks"] == before
