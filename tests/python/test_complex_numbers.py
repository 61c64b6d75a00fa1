"""Complex tensors within one graph: results, dtypes, strides, lazy conjugates and gradients are eager's."""

import pytest

import cdynamo

torch = pytest.importorskip("torch")
nn = torch.nn


def z_and_x():
    generator = torch.Generator().manual_seed(3)
    z = torch.complex(torch.randn(3, 4, generator=generator), torch.randn(3, 4, generator=generator))
    return z, torch.randn(3, 4, generator=generator)


def arithmetic(z, x):
    return z * z + z * 2 - 1j * z, z * x + x * 1j, -z, z - x, 2 - z, z**2, torch.add(z, z, alpha=3)


def quotients(z, x):
    return z / (z + 2), 1 / z, z / x, x / z, z / 2.0, z / (1 + 2j), z.reciprocal()


def parts(z, x):
    return z.real + z.imag, z.abs(), z.angle(), torch.abs(z), abs(z), torch.view_as_real(z), torch.real(z)


def conjugates(z, x):
    return z.conj() * z, (z * z.conj()).real, z.conj(), z.mH, torch.conj(z)[0], z.conj().resolve_conj()


def rotary(z, x):
    pairs = torch.view_as_complex(x.reshape(3, 2, 2))
    angles = torch.polar(torch.ones(3, 2), x[:, :2])
    return torch.view_as_real(pairs * angles).flatten(1)


def transforms(z, x):
    f = torch.fft.rfft(x, dim=-1)
    return torch.fft.irfft(f * f.abs(), n=4), torch.fft.fft2(z), torch.fft.ifft(z).real, torch.fft.fftshift(z)


def spectrogram(z, x):
    s = torch.stft(x.flatten().repeat(40), 64, return_complex=True, window=torch.ones(64))
    return s, s.abs().sum()


def products(z, x):
    return z @ z.T, torch.einsum("ij,kj->ik", z, z), torch.matmul(z, z.mH), torch.outer(z[0], z[1])


def reductions(z, x):
    return z.sum(), z.mean(0), z.sum(1, keepdim=True), z.cumsum(1), z.prod(1), z.norm(), z.abs().pow(2).sum()


def views(z, x):
    first = z[0], z[:, 1:], z[..., 0], z.t(), z.reshape(2, 6), z.flatten(), z.unsqueeze(1).expand(3, 2, 4)
    return *first, z.permute(1, 0), z.view(12), z.diagonal(), z.squeeze(), *z.chunk(2, 1), *z.unbind(0)


def rearranged(z, x):
    joined = torch.cat([z, z]), torch.stack([z, z], -1), torch.cat([z, x]), torch.stack([x, z])
    return *joined, z.roll(1, 0), z.flip(0), z.repeat(2, 1), z.tril(), torch.where(x > 0, z, z * 2)


def functions(z, x):
    return torch.exp(z), torch.sqrt(z), torch.log(z), torch.sin(z), z**3, torch.tanh(z), z.pow(0.5)


def converted(z, x):
    return x.to(torch.complex64) * z, z.to(torch.complex128), x.cfloat() + z, torch.complex(x, x), x.cdouble()


def solved(z, x):
    return torch.linalg.inv(z[:, :3]), torch.linalg.solve(z[:, :3], z)


def layouts(z, x):
    return z.t() * z.t(), z.t() + 1, (z.t() * x.t()).abs(), z.t().clone(), z.t().contiguous(), torch.exp(z.t())


def written(z, x):
    w = z.clone()
    w.mul_(2)
    w += 1j
    w[0] = 3
    w[1:, 0] = z[1:, 1]
    w[..., 2] = 1 + 2j
    return w


DIFFERENTIABLE = [
    arithmetic,
    quotients,
    parts,
    conjugates,
    rotary,
    transforms,
    spectrogram,
    products,
    reductions,
    views,
    rearranged,
    functions,
    converted,
    solved,
    layouts,
]


def made(z, x):
    of_shapes = torch.zeros(3, dtype=torch.cfloat) + z[:, 0], torch.ones(4, dtype=torch.complex64) * z
    return *of_shapes, torch.tensor([1j, 2]), torch.zeros_like(z), torch.full((2,), 1j), torch.full_like(z, 2j)


def asked(z, x):
    facts = z.shape, z.dtype, z.is_complex(), torch.is_complex(z), z.stride(), z.size(-1), z.numel(), z.ndim, len(z)
    return *facts, z.device, z.is_conj(), z.conj().is_conj(), z == z, z != 1j, z.isnan(), z.is_contiguous()


def selected(z, x):
    return z[z.real > 0], z[torch.tensor([0, 2])], z[None, :, torch.tensor([1, 1])], z.masked_fill(x > 0, 1j)


def selected_of_a_conjugate(z, x):
    w = z.conj()
    views, copies = (w[0], w[..., 1:], w[None]), (w[[0, 1]], w[torch.tensor([0, 2])], w[1:, [1]], w[x > 0])
    return views, copies, [t.is_conj() for t in (*views, *copies)], w[[0, 1]].view(torch.float32)


def written_argument(z, x):
    z.mul_(2j)
    z[0] = x[0]
    return z.real


def same(expected, got):
    if isinstance(expected, (tuple, list)):
        return len(expected) == len(got) and all(map(same, expected, got))
    if not isinstance(expected, torch.Tensor):
        return expected == got
    told = [(t.dtype, t.shape, t.stride(), t.requires_grad, t.is_complex() and t.is_conj()) for t in (expected, got)]
    return told[0] == told[1] and torch.allclose(expected, got, rtol=1e-5, atol=1e-5, equal_nan=True)


def norm_of(tree):
    """A number that all differentiable tensors in the tree go into."""
    if isinstance(tree, torch.Tensor):
        if not tree.requires_grad:
            return 0.0
        return (tree.abs() ** 2).sum() if tree.is_complex() else (tree * 1.5).sum()
    return sum(norm_of(item) for item in tree) if isinstance(tree, (tuple, list)) else 0.0


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "program",
    [*DIFFERENTIABLE, written, made, asked, selected, selected_of_a_conjugate, written_argument],
    ids=lambda program: getattr(program, "__name__", None),
)
def test_one_graph(program, dynamic):
    compiled = cdynamo.optimize(program, fullgraph=program not in (selected, selected_of_a_conjugate), dynamic=dynamic)
    for _ in range(2):
        (z, x), (other, _) = z_and_x(), z_and_x()
        assert same(program(z, x), compiled(other, x))
        assert same(z, other)


@pytest.mark.parametrize("program", [*DIFFERENTIABLE, written], ids=lambda program: program.__name__)
def test_gradients(program):
    def gradients(function):
        z, x = (t.requires_grad_() for t in z_and_x())
        return torch.autograd.grad(norm_of(function(z, x)), [z, x], allow_unused=True)

    # As one graph, but where the strides of a gradient are PyTorch's to choose.
    one_graph = program not in (transforms, spectrogram, reductions)
    for compiled in (cdynamo.optimize(program), cdynamo.optimize(program, fullgraph=one_graph)):
        for expected, got in zip(gradients(program), gradients(compiled)):
            assert (expected is None) == (got is None)
            assert expected is None or torch.allclose(expected, got, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("program", [*DIFFERENTIABLE, written], ids=lambda program: program.__name__)
def test_backends_in_python(program):
    for backend in ("eager", lambda gm, inputs: gm.forward):
        z, x = z_and_x()
        assert same(program(z, x), cdynamo.optimize(program, backend=backend)(z, x))


def test_gradients_at_zero():
    """abs and angle are flat there, as in eager."""

    def f(z):
        return z.abs().sum() + z.angle().sum()

    def gradient(function):
        z = torch.tensor([0j, 1 + 2j, 3]).requires_grad_()
        function(z).backward()
        return z.grad

    assert torch.allclose(gradient(f), gradient(cdynamo.optimize(f)))


def test_a_gradient_that_is_none_at_zero():
    """The square root's: 0 times infinity, which abs keeps."""

    def f(z):
        return z.abs().sqrt()[1:].sum()

    def gradient(function):
        z = torch.tensor([0j, 1 + 2j, 3]).requires_grad_()
        function(z).backward()
        return torch.view_as_real(z.grad)

    expected = gradient(f)
    assert expected[0].isnan().all()
    assert torch.allclose(gradient(cdynamo.optimize(f)), expected, equal_nan=True)


def test_what_is_not_finite():
    def f(a, b):
        return torch.view_as_real(a * b), a.abs()

    special = [float("inf"), -float("inf"), float("nan"), 0.0, -0.0, 1.0]
    parts = torch.tensor([[re, im] for re in special for im in special])
    a = torch.view_as_complex(parts)[:, None].expand(36, 36).contiguous()
    for expected, got in zip(f(a, a.t().contiguous()), cdynamo.optimize(f)(a, a.t().contiguous())):
        assert torch.equal(expected.isnan(), got.isnan())
        assert torch.equal(expected.nan_to_num(7.0), got.nan_to_num(7.0))


def test_widths():
    def f(a, b):
        return a * b, a + b, b / a

    wide, single = torch.complex128, torch.complex64
    operands = [torch.ones(2, dtype=wide), torch.ones((), dtype=wide), torch.ones(2, dtype=single)]
    operands += [torch.ones(2), torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.int64), torch.ones(())]
    for a in operands[:3]:
        for b in operands:
            assert same(f(a, b), cdynamo.optimize(f)(a, b))


def test_across_a_break():
    """A complex local is handed on with its history and its conjugation, also where no gradients are recorded."""

    def f(z, x):
        y = z * x
        w = y.conj()
        with torch.no_grad():
            cdynamo.graph_break()
            flag = y.is_conj(), w.is_conj(), y.requires_grad, w.requires_grad
        return (w * z).real.sum() + y.imag.sum(), flag

    def run(function):
        z, x = (t.requires_grad_() for t in z_and_x())
        loss, flag = function(z, x)
        loss.backward()
        return loss.detach(), flag, z.grad, x.grad

    assert same(run(f), run(cdynamo.optimize(f)))


def test_guards():
    def f(z):
        return z * 2

    compiled = cdynamo.optimize(f)
    z, x = z_and_x()
    for value in (z, x, z.conj(), z.to(torch.complex128), z.t(), z[0], z.detach().requires_grad_()):
        assert same(f(value), compiled(value))


class SpectralConvolution(nn.Module):
    """Of a Fourier neural operator."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, 5, dtype=torch.cfloat) * 0.3)
        self.local = nn.Conv1d(4, 4, 1)

    def forward(self, x):
        modes = torch.fft.rfft(x)
        out = torch.zeros(x.shape[0], 4, modes.shape[-1], dtype=torch.cfloat)
        out[:, :, :5] = torch.einsum("bix,iox->box", modes[:, :, :5], self.weight)
        return torch.nn.functional.gelu(torch.fft.irfft(out, n=x.shape[-1]) + self.local(x))


def test_training_a_module_with_complex_parameters():
    torch.manual_seed(0)
    model, x = SpectralConvolution(), torch.randn(2, 4, 16)
    steps = []
    for function in (model, cdynamo.optimize(model, fullgraph=True)):
        model.zero_grad()
        function(x).square().mean().backward()
        steps.append([parameter.grad.clone() for parameter in model.parameters()])
    for expected, got in zip(*steps):
        assert expected.dtype == got.dtype and torch.allclose(expected, got, rtol=1e-4, atol=1e-6)


def test_layouts_that_operators_choose():
    """Found by PyTorch's own samples."""

    def f(z, images):
        return z.ravel(), z[0, ::2].ravel(), z.t().ravel(), torch.cat([images, images])

    def outer(x, row):
        return torch.complex(row, x), torch.complex(x.t(), row[:1]), torch.complex(row, x.t()[:, :1]), row + 1j * x

    z, x = z_and_x()
    square = torch.cat([x, x[:1]])
    assert same(outer(square, x[0]), cdynamo.optimize(outer, fullgraph=True)(square, x[0]))
    images = torch.randn(2, 2, 2, 2, dtype=torch.cfloat).contiguous(memory_format=torch.channels_last)
    assert same(f(z, images), cdynamo.optimize(f, fullgraph=True)(z, images))


def test_functions_that_ask_for_overrides_first():
    def f(z):
        first = torch.block_diag(z, z), torch.nn.functional.pad(z, (1, 2)), 2 / z
        return *first, torch.addmm(z, z, z.mT @ z, alpha=2j), z.norm("fro"), *z.hsplit(2), z[0].broadcast_to(2, 4)

    z, _ = z_and_x()
    assert same(f(z), cdynamo.optimize(f, fullgraph=True)(z))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda z: z[0, 1, 1],
        lambda z: z.sum(2),
        lambda z: z[0].sum(1),
        lambda z: z[0, 0][:1],
        lambda z: list(z[0, 0]),
        lambda z: z.select(2, 0),
        lambda z: z.unbind(2),
        lambda z: torch.cat([z, z], 2),
        lambda z: z.unsqueeze(4),
        lambda z: z.flip(2),
        lambda z: z.transpose(0, 2),
        lambda z: z.squeeze(-3),
        lambda z: len(z[0, 0]),
    ],
)
def test_the_pairs_are_no_dim(wrong):
    """Of two elements in each dim, so that pairs would fit anywhere."""
    z = torch.view_as_complex(torch.randn(2, 2, 2))
    with pytest.raises((IndexError, RuntimeError, TypeError)) as expected:
        wrong(z)
    with pytest.raises(type(expected.value)) as got:
        cdynamo.optimize(wrong)(z)
    assert str(got.value) == str(expected.value)


@pytest.mark.parametrize("make", [torch.complex, torch.polar])
def test_halves_are_two_tensors_of_one_real_dtype(make):
    x = torch.ones(3)
    wrong = [
        (1, x),
        (x, 1),
        (1, 2),
        (x, x.double()),
        (x.long(), x.long()),
        (x.cfloat(), x.cfloat()),
        (x.bfloat16(),) * 2,
    ]
    for first, second in wrong:
        with pytest.raises((TypeError, RuntimeError)) as expected:
            make(first, second)
        with pytest.raises(type(expected.value)) as got:
            cdynamo.optimize(lambda a, b: make(a, b) * 2)(first, second)
        assert str(got.value) == str(expected.value)


def test_gradients_of_polar_lie_as_eager_s():
    x, y = torch.rand(4, 5, requires_grad=True), torch.rand(4, 5, requires_grad=True)

    def program(a, b):
        return torch.view_as_real(torch.polar(a, b)).sin().sum()

    expected = torch.autograd.grad(program(x, y), (x, y))
    got = torch.autograd.grad(cdynamo.optimize(program, fullgraph=True)(x, y), (x, y))
    for mine, theirs in zip(got, expected):
        torch.testing.assert_close(mine, theirs)
        assert mine.stride() == theirs.stride()


@pytest.mark.parametrize("name", ["t_", "transpose_", "swapaxes_", "squeeze_", "unsqueeze_"])
def test_what_changes_only_how_a_tensor_looks_at_its_memory(name):
    args = {"t_": (), "squeeze_": (), "unsqueeze_": (0,)}.get(name, (0, 1))

    def change(z):
        flat = z.view(-1)
        getattr(z, name)(*args)
        return flat + 0, z.shape, z.stride(), z.sum()

    for sizes in ((2, 2), (2, 3), (1, 4)):
        z = torch.randn(sizes, dtype=torch.complex64)
        expected, got = change(z.clone()), cdynamo.optimize(change)(z.clone())
        assert expected[1:3] == got[1:3]
        assert same(expected[::3], got[::3])


def test_t_of_three_dims_is_an_error():
    with pytest.raises(RuntimeError, match="t_.. expects a tensor with <= 2 dim"):
        cdynamo.optimize(lambda z: z.t_())(torch.zeros(2, 3, 4, dtype=torch.complex64))
    with pytest.raises(RuntimeError, match="t.. expects a tensor with <= 2 dim"):
        cdynamo.optimize(lambda z: z.t())(torch.zeros(2, 3, 4, dtype=torch.complex64))


@pytest.mark.parametrize("first", [torch.complex64, torch.complex128, torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("second", [torch.complex64, torch.complex128])
def test_the_width_of_a_selection(first, second):
    selection = cdynamo.optimize(torch.where)
    for sizes in (((3,), ()), ((), (3,)), ((3,), (3,)), ((), ())):
        a, b = torch.ones(sizes[0], dtype=first), torch.ones(sizes[1], dtype=second)
        condition = torch.tensor([True, False, True])
        assert same(torch.where(condition, a, b), selection(condition, a, b))
        assert same(torch.where(condition, b, a), selection(condition, b, a))


def test_strides_of_dims_of_size_one():
    def f(x):
        z = x.to(torch.complex64)
        return [y.stride() for y in (z, x * 1j, z + z, z.exp(), z.clone(), torch.complex(x, x), torch.view_as_real(z))]

    for x in (torch.ones(1, 5).T, torch.ones(5, 1).T, torch.ones(1, 3, 5).permute(1, 2, 0), torch.ones(3, 1, 1).mT):
        cdynamo.reset()
        assert cdynamo.optimize(f)(x) == f(x), (x.shape, x.stride())


NUMBERS = torch.arange(100.0)


def test_strides_of_what_is_empty():
    def f(x):
        return [y.stride() for y in (x * 1j, x.cfloat(), (x * 1j).real, (x + 1j).exp(), torch.view_as_real(x * 1j))]

    for x in (torch.zeros(0, 3).T, torch.zeros(0, 2, 3).permute(2, 0, 1)):
        assert cdynamo.optimize(f)(x) == f(x), (x.shape, x.stride())


OF_SIZE_ONE = [NUMBERS.as_strided(*laid) for laid in (
    ((1, 2), (1, 17)), ((17, 1), (1, 17)), ((1, 17), (17, 1)), ((17, 1, 2), (1, 17, 17)), ((17, 2, 1), (1, 17, 1)),
    ((2, 1, 2), (1, 2, 34)), ((1, 2, 17), (1, 34, 2)), ((1, 1), (1, 17)), ((2, 1), (17, 50)), ((1, 2, 1, 3), (3, 20, 1, 1)),
)]  # fmt: skip


@pytest.mark.parametrize("x", OF_SIZE_ONE)
def test_strides_of_results_where_dims_of_size_one_leave_a_choice(x):
    def f(x):
        z = x.cfloat()
        scaled = z * (1 + 2j)
        results = [
            z,
            scaled,
            z.abs(),
            scaled.abs(),
            scaled.real + 1,
            z.angle(),
            z + z.conj(),
            z + z.sum(0, keepdim=True),
            z.exp(),
        ]
        return [y.stride() for y in (*results, z == 1, z.transpose(0, -1) * 2, torch.zeros_like(z), z.cdouble() / 2)]

    cdynamo.reset()
    assert cdynamo.optimize(f)(x) == f(x)


@pytest.mark.parametrize("x", OF_SIZE_ONE)
def test_strides_of_results_of_two_with_dims_of_size_one(x):
    def f(x, y):
        a, b = x.cfloat(), y.cfloat()
        results = [
            a + b,
            x + b,
            a * b,
            a * y,
            a / b,
            a == b,
            torch.complex(x, y),
            a.conj() * b,
            torch.where(x > 1, a, b),
        ]
        return [z.stride() for z in results]

    for y in OF_SIZE_ONE:
        if all(m == n or 1 in (m, n) for m, n in zip(x.shape[::-1], y.shape[::-1])):
            cdynamo.reset()
            assert cdynamo.optimize(f)(x, y) == f(x, y), (y.shape, y.stride())


def test_what_is_found_of_transposed_numbers_lies_as_they_do():
    def f(z):
        return [y for z in (z, z.conj()) for y in (z.isnan(), z.isinf(), z.isfinite(), z.abs(), z == z)]

    x = torch.tensor([[0.0, float("inf"), 2.0], [1.0, 3.0, float("nan")]]).T
    for z in (torch.complex(x, x), torch.complex(x, -x).T.contiguous()):
        for got, expected in zip(cdynamo.optimize(f)(z), f(z), strict=True):
            assert got.stride() == expected.stride()
            assert torch.equal(got.nan_to_num(), expected.nan_to_num())


@pytest.mark.parametrize("backend", ["native", "eager"])
def test_what_was_made_under_no_grad_is_written_to(backend):
    def f(x, y):
        with torch.no_grad():
            z = torch.complex(x, x) * 2
            cdynamo.graph_break()
        z.sub_(y)
        return z

    got, expected = (
        function(torch.ones(3), torch.ones(3, requires_grad=True))
        for function in (cdynamo.optimize(f, backend=backend), f)
    )
    assert torch.equal(got, expected)
    assert got.requires_grad


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize(
    "conjugate", [lambda z: z.conj(), lambda z: z.conj().T, lambda z: z.T.conj()[:, :1]], ids=["whole", "T", "column"]
)
def test_which_copies_of_a_conjugate_are_lazy(conjugate, backend):
    contiguous = torch.contiguous_format
    copies = [
        lambda t: t.contiguous(), lambda t: t.clone(), lambda t: t.clone(memory_format=contiguous), lambda t: t.ravel(),
        lambda t: t.reshape(-1), lambda t: t.flatten(), lambda t: t.to(torch.complex128), lambda t: t.resolve_conj(),
    ]  # fmt: skip
    for copy in copies:

        def f(z, copy=copy):
            result = copy(conjugate(z))
            return result, result.is_conj(), result.stride()

        z = torch.complex(torch.arange(6.0).reshape(2, 3), torch.ones(2, 3))
        cdynamo.reset()
        (got, *told), (expected, *facts) = cdynamo.optimize(f, backend=backend)(z), f(z)
        assert told == facts == [expected.is_conj(), expected.stride()]
        assert (got.is_conj(), got.stride()) == (expected.is_conj(), expected.stride())
        assert torch.equal(got, expected)


@pytest.mark.parametrize(
    "make, grad",
    [
        *((make, grad) for make in (lambda x: x.cfloat(), lambda x: x * 1j) for grad in (True, False)),
        (lambda x: (x * 1j).conj(), True),
    ],
)
def test_what_is_new_is_a_view_of_nothing(make, grad):
    def program(x):
        with torch.set_grad_enabled(grad):
            z = make(x)
            views = z, torch.view_as_complex(x.reshape(2, 2)), z[1:]
        cdynamo.graph_break()
        z.requires_grad_()
        try:
            z.sub_(1)
        except RuntimeError as error:
            return views, str(error)

    results = [f(torch.arange(4.0)) for f in (program, cdynamo.optimize(program))]
    (plain, refused), (compiled, refused_too) = results
    assert refused_too == refused
    assert [v._is_view() for v in compiled] == [v._is_view() for v in plain]


@pytest.mark.parametrize("backend", ["native", "eager"])
def test_comparisons_lie_as_their_first_operand_does(backend):
    def program(z, x):
        return x.T == z, z == x.T, x.T != z.conj(), z.T == z, torch.eq(x.T, z)

    args = torch.complex(torch.arange(9.0), torch.ones(9)).reshape(3, 3), torch.arange(9.0).reshape(3, 3)
    for got, expected in zip(cdynamo.optimize(program, backend=backend)(*args), program(*args)):
        assert torch.equal(got, expected)
        assert got.stride() == expected.stride()


@pytest.mark.parametrize("make", [lambda x: x.unfold(0, 1, 1), lambda x: x.t(), lambda x: x])
def test_what_an_operator_gives_is_no_view(make):
    """Which a Function of the program's would hand on, and PyTorch refuse to write to."""

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            return z * 2

    def f(x):
        z = Scaled.apply(make(x).cfloat())
        cdynamo.graph_break()
        return z.add_(1).detach() * 1

    x = torch.arange(9.0).reshape(3, 3).requires_grad_()
    torch.testing.assert_close(cdynamo.optimize(f)(x), f(x))
