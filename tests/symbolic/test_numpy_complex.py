"""Complex arrays of NumPy's in compiled programs: dtypes, layouts, writes, what leaves, what breaks the graph."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy_check import assert_same, in_one_graph

import cdynamo


def arithmetic(z, w, x):
    return (
        z + w, z - x, x - z, z * w, z * x, x * z, z / w, z / x, x / (w + 3), -z, +z, z**2, z**3, z + 1, 2 - z, z * 1j, 1j * x,
        x + (1 + 2j), z / 2, 1 / (z + 3), 1j / (z + 3), z * np.float64(2), np.complex64(1j) * x, z * np.complex128(1j), z @ w.T,
    )  # fmt: skip


def parts(z, w, x):
    return (
        z.real, z.imag, z.conj(), z.conjugate(), np.conj(z), np.real(z), np.imag(w), np.abs(z), abs(w), np.angle(z), np.angle(w, deg=True),
        z.real**2 + z.imag**2, np.isnan(z), np.isfinite(z), np.isinf(z), np.iscomplexobj(z), np.iscomplex(z), np.isreal(z),
    )  # fmt: skip


def functions(z, w, x):
    return (
        np.exp(z), np.exp(1j * x), np.sin(z), np.sqrt(z), np.log(z), np.square(z), np.reciprocal(z + 3), np.add(z, w), np.multiply(z, 2j),
        np.power(z, 2), z**0.5, z**1.5, np.where(np.abs(z) < 1, z, w), np.where(x > 0, z, 0), np.where(x > 0, x, 1j), np.tanh(z),
    )  # fmt: skip


def comparisons(z, w, x):
    return z == w, z != w, z == z, z.real == x, z == 1j, (z == z).all(), np.allclose(z, z + 1e-12), np.isclose(z, w)


def reductions(z, w, x):
    return (
        z.sum(), z.sum(axis=0), np.sum(z, axis=-1, keepdims=True), z.mean(), np.mean(z, axis=1), z.prod(), np.prod(w, axis=0), z.cumsum(axis=0),
        np.cumsum(z[0]), z.std(), np.var(z, axis=0), np.sum(np.abs(z) ** 2), np.linalg.norm(z), np.trace(z),
    )  # fmt: skip


def products(z, w, x):
    return (
        z @ w.conj().T, np.dot(z, x.T), np.vdot(z, w), np.vdot(x, w), np.matmul(x, w.T), np.einsum("ij,kj->ik", z, w), np.outer(z[0], w[1]), np.inner(z, w),
        np.tensordot(z, w, axes=([1], [1])), np.kron(z[:2, :2], w[:2, :1]), np.outer(x[0], w), z.trace(), np.trace(w, 1), z.diagonal(), np.diagonal(z.T, -1), z[:2, :2] @ w[:2, :2],
    )  # fmt: skip


def dtypes(z, w, x):
    z64, x32, n = z.astype(np.complex64), x.astype(np.float32), np.arange(x.shape[1])
    return (
        z64 * 2, z64 * 1j, z64 + x32, z64 + x, z64 + z, x32 * 1j, n * 1j, (x > 0) * 1j, z64 + n, z64 + n.astype(np.int16), x.astype(complex),
        x32.astype(np.complex64), n.astype("complex64"), z.astype(np.complex64), z.dtype == complex, z64.dtype == np.complex64, z64.itemsize, z.nbytes, np.exp(1j * x32),
        np.array([z64[0, 0], 1j]), np.array([z64[0, 0], x32[0, 0]]), np.array([z64[0, 0], 2]), np.where(x > 0, z64, 1j), np.abs(z64), z64.real, np.fft.fft(x32), z64 * np.float64(2), x32 * np.complex128(1j),
    )  # fmt: skip


def made(z, w, x):
    n, m = x.shape
    a = np.zeros((n, m), dtype=complex)
    a[...] = x
    b = np.empty_like(z)
    b[:] = 2
    return (
        a, b, np.zeros(m, np.complex64), np.ones((2, m), dtype="complex128"), np.full(n, 1 + 2j), np.zeros_like(z), np.ones_like(z[:, ::2]),
        np.array([1j, 2, 3.5]), np.array([z[0, 0], 1j, x[0, 0], 2]), np.array([[1, 1j], [1j, 1]]), np.eye(3, dtype=complex), np.array(z),
        np.asarray(z) is z, np.asarray(x, dtype=complex), np.array([z[0], w[1]]), np.full_like(z, 1j), np.zeros_like(x, dtype=complex),
    )  # fmt: skip


def views(z, w, x):
    y = z.T
    y[0] = 1j
    z[1:].real[...] = 5
    flat = z.reshape(-1)
    flat[2] = 7
    return (
        y, z.ravel(), z.reshape(-1, 2) if z.size % 2 == 0 else z, z[None], z[..., 0], z[::-1], z[:, ::2], z.flatten(), z.copy(), z.squeeze(),
        np.swapaxes(z, 0, 1), z.transpose(1, 0), np.expand_dims(z, 0), np.moveaxis(z[None], 0, -1), np.roll(z, 1), np.roll(z, 2, axis=1),
        np.flip(z, 0), np.concatenate([z, w]), np.concatenate([z, x], axis=1), np.stack([z, w], axis=-1), np.vstack((z[0], w[0])), z.T * 2,
        np.hstack([z, w]), len(z), z.shape, z.ndim, z.size, z.strides, np.tile(z, (2, 1)), np.repeat(z, 2, axis=0), np.broadcast_to(z[0], z.shape),
    )  # fmt: skip


def writes(z, w, x):
    z += w
    z[0] *= 2
    z[:, 1] = x[:, 1]
    z[1:, ::2] -= 1j
    z[-1] = [1j] * z.shape[1]
    w /= 2
    w.real = x
    w.imag[0] = 3
    w[1, 2] = 1 - 1j
    out = np.empty_like(z)
    np.multiply(z, w, out=out)
    np.add(out, 1, out)
    z.fill(2j)
    z[...] = w
    w[1:] += w[:-1]
    return out, z[0, 0], z[0, 1].real, abs(z[1, 1])


def masks(z, w, x):
    mask = np.abs(z) > 1
    z[mask] = z[mask] ** 2 + w[mask]
    w[~mask] = 0
    w[x > 1] *= 1j
    return z[mask], mask.sum(), z[x[:, 0] > 0], z[[1, 0]], z[[0, 1], [1, 2]]


def mandelbrot(z, w, x):
    z = np.zeros_like(w)
    counts = np.zeros(w.shape, dtype=int)
    for _ in range(20):
        alive = np.abs(z) <= 2
        z[alive] = z[alive] ** 2 + w[alive]
        counts += alive
    return counts


def julia(z, w, x):
    counts = np.zeros(z.shape, int)
    for _ in range(20):
        z = np.where(np.abs(z) < 2, z * z + (-0.4 + 0.6j), z)
        counts += np.abs(z) < 2
    return z, counts


def durand_kerner(z, w, x):
    roots = (0.4 + 0.9j) ** np.arange(3)
    for _ in range(30):
        for i in range(3):
            others = np.delete(roots, i)
            roots[i] = roots[i] - (roots[i] ** 3 - 3 * roots[i] ** 2 + 3 * roots[i] - 5) / np.prod(roots[i] - others)
    return roots + 0 * x[0, 0]


def quantum(z, w, x):
    h = np.array([[1, 1], [1, -1]], dtype=complex) / np.sqrt(2)
    phase = np.array([[1, 0], [0, np.exp(1j * np.pi / 4)]])
    state = np.zeros(4, dtype=complex)
    state[0] = 1
    state = np.kron(h, phase @ h) @ state
    state = state * np.exp(1j * x[0, :4])
    return state, np.abs(state) ** 2, np.vdot(state, state).real


def fourier(z, w, x):
    f = np.fft
    return (
        f.fft(x), f.fft(z), f.ifft(z), f.ifft(f.fft(x)).real, f.rfft(x), f.irfft(f.rfft(x), n=x.shape[-1]), f.fft2(x), f.ifft2(z), f.fftn(z),
        f.fft(x, n=8), f.fft(z, axis=0), f.fft(x, norm="ortho"), f.fftshift(z), f.ifftshift(z, axes=1), f.fftfreq(x.shape[1], d=0.5),
        f.rfftfreq(x.shape[1]), f.rfft2(x), f.irfftn(f.rfftn(x), s=x.shape, axes=(0, 1)), f.hfft(z), f.ihfft(x), f.fft(x.astype(np.float32)),
        f.rfft(x.astype(np.float32)), f.fftshift(f.fftfreq(x.shape[1])),
    )  # fmt: skip


def spectral(z, w, x):
    u = x[0]
    k = 2j * np.pi * np.fft.fftfreq(u.size, d=0.1)
    for _ in range(4):
        u = u + 0.01 * np.real(np.fft.ifft(k**2 * np.fft.fft(u)))
    return u, np.real(np.fft.ifft(np.fft.fft(u) * np.exp(k * 0.1)))


def matrices(z, w, x):
    square = z @ z.conj().T + 9 * np.eye(z.shape[0])
    return (
        np.linalg.inv(square), np.linalg.solve(square, z), np.linalg.det(square), np.linalg.eigvalsh(square), np.linalg.cholesky(square),
        np.linalg.matrix_power(square, 2), np.linalg.norm(z, axis=1), np.linalg.svd(z, compute_uv=False),
    )  # fmt: skip


def items(z, w, x):
    total = 0
    for row in z:
        total = total + row.sum()
    a, b = w[0, :2]
    scalars = (
        a.T,
        a.transpose(),
        a.squeeze(),
        a.ravel(),
        a.reshape(-1),
        a.reshape(()),
        a.flatten(),
        a[...],
        a[None],
        np.transpose(a),
        np.ravel(a),
    )
    return (
        scalars,
        a.strides,
        a.shape,
        a.ndim,
        a.size,
        a.dtype == complex,
        total,
        a * b,
        a.conj(),
        a.real,
        z[0, 1],
        z[()] is z,
        z[0][1] * 1j,
        np.sqrt(a),
        a**2,
        a == b,
    )


def of_a_number(z, w, x):
    t = x[0, 0]
    return (
        t * 1j,
        np.exp(t * 1j) * z,
        z * t,
        t - z[0, 1],
        np.exp(-1j * np.float64(0.5) * z),
        np.complex64(t),
        np.complex128(z[0, 0]),
    )


PROGRAMS = [
    arithmetic, parts, functions, reductions, products, dtypes, made, views, writes, masks, mandelbrot, julia, durand_kerner, quantum,
    fourier, spectral, matrices, items, of_a_number, comparisons,
]  # fmt: skip
READS_DATA = (masks, mandelbrot, comparisons)


def example(seed, shape):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((2, *shape)) + 1j * rng.standard_normal((2, *shape))
    return z[0], z[1], rng.standard_normal(shape)


def check(program, fullgraph):
    compiled = cdynamo.optimize(program, fullgraph=fullgraph)
    for seed, shape in enumerate([(3, 6), (3, 6), (4, 7)]):
        ours, numpys = example(seed, shape), example(seed, shape)
        assert_same(compiled(*ours), program(*numpys), rtol=1e-9, atol=1e-9 if program is not dtypes else 1e-5)
        assert_same(ours, numpys, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("program", in_one_graph(PROGRAMS, READS_DATA), ids=lambda program: program.__name__)
def test_results_and_writes_are_numpys(program):
    check(program, fullgraph=True)


@pytest.mark.parametrize("program", READS_DATA, ids=lambda program: program.__name__)
def test_results_where_a_backend_in_python_breaks_the_graph(program):
    check(program, fullgraph=False)


@pytest.mark.parametrize("layout", ["F", "gaps", "reversed", "read-only"])
def test_operands_of_other_layouts(layout):
    def program(z):
        return z * 2j, z.conj(), z + z.T.copy().T, np.exp(z), z.sum(axis=0), np.abs(z), z.T.ravel()

    def given():
        z = example(3, (4, 6))[0]
        if layout == "F":
            return np.asfortranarray(z)
        if layout == "gaps":
            return z[:, ::2]
        if layout == "read-only":
            z.flags.writeable = False
        return z[::-1] if layout == "reversed" else z

    assert_same(cdynamo.optimize(program, fullgraph=True)(given()), program(given()), rtol=1e-12)


def test_special_numbers():
    def program(z, w):
        return z + w, z * w, z / w, z == w, np.abs(z), z.conj(), z * 2.0, z + 0.0

    special = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan]
    z = np.array([complex(a, b) for a in special for b in special])
    with np.errstate(all="ignore"):
        left, right = np.repeat(z, z.size), np.tile(z, z.size)
        got, expected = cdynamo.optimize(program, fullgraph=True)(left, right), program(left, right)
    for ours, numpys in zip(got, expected, strict=True):
        np.testing.assert_array_equal(ours, numpys)
        known = ~np.isnan(numpys.real)
        np.testing.assert_array_equal(np.signbit(ours.real)[known], np.signbit(numpys.real)[known])


def test_an_argument_that_is_given_back_is_itself():
    compiled = cdynamo.optimize(lambda z: (z, z.real, z[1:]), fullgraph=True)
    z = example(0, (3, 6))[0]
    itself, real, rest = compiled(z)
    assert itself is z
    assert np.shares_memory(real, z) and np.shares_memory(rest, z)


def test_one_array_for_two_arguments():
    def program(z, w):
        z += 1
        return z * w

    compiled = cdynamo.optimize(program)
    for _ in range(2):
        ours, numpys = example(1, (3, 6))[0], example(1, (3, 6))[0]
        assert_same(compiled(ours, ours), program(numpys, numpys))
        assert_same(compiled(ours, ours[::-1]), program(numpys, numpys[::-1]))
        assert_same(ours, numpys)


def test_what_numpy_warns_of_is_left_to_it():
    def program(z):
        return (z * 2).astype(float)

    with pytest.warns(np.exceptions.ComplexWarning):
        assert_same(cdynamo.optimize(program)(example(0, (2, 3))[0]), program(example(0, (2, 3))[0]))

    def write(z):
        x = np.zeros(z.shape)
        x[...] = z
        return x

    with pytest.warns(np.exceptions.ComplexWarning):
        compiled = cdynamo.optimize(write)(example(0, (2, 3))[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(compiled, write(example(0, (2, 3))[0]))


@pytest.mark.parametrize(
    "program", [lambda x, z: x.__iadd__(z), lambda x, z: z // 2, lambda x, z: np.add(x, z, out=x), lambda x, z: z % 2]
)
def test_errors_are_numpys(program):
    x, z = np.ones(3), np.ones(3, complex)
    with pytest.raises(TypeError) as expected:
        program(x, z)
    with pytest.raises(TypeError) as got:
        cdynamo.optimize(program)(x, z)
    assert str(got.value) == str(expected.value)


def test_a_real_array_where_there_was_a_complex_one():
    compiled = cdynamo.optimize(lambda z: z * 2 + z.sum(), fullgraph=True)
    for z in (np.ones(3, complex), np.ones(3), np.ones(3, np.complex64), np.ones(3, np.float32), np.ones(3, complex)):
        assert_same(compiled(z), z * 2 + z.sum())


def test_numbers_that_change_beside_complex_ones():
    def program(x, t, n):
        try:
            phase = -1j * t
        except TypeError:
            phase = 0
        return (
            np.exp(phase * x),
            (t + 2j) * x,
            x * (1j / n),
            np.exp(2j * np.pi * np.arange(n) / n),
            np.zeros(n, complex),
        )

    compiled = cdynamo.optimize(program, fullgraph=True)
    x = np.linspace(0, 1, 5)
    for t, n in ((0.5, 2), (1.5, 3), (2.5, 4), (-1.0, 5)):
        assert_same(compiled(x, t, n), program(x, t, n))


def test_python_makes_its_own_complex_number_of_a_double():
    def program(x):
        return (1 + 1j) * x[0], x[0] * (1 + 1j), 1j * x.astype(np.float32)[0]

    assert_same(cdynamo.optimize(program)(np.ones(2)), program(np.ones(2)))


@pytest.mark.native
def test_gradients_of_real_numbers_pass_through_complex_ones():
    x = np.arange(4.0)
    power = cdynamo.grad(lambda x: np.sum(np.abs(np.exp(1j * x) * x) ** 2))
    np.testing.assert_allclose(power(x), 2 * x, rtol=1e-12)
    wave = cdynamo.grad(lambda x: np.sum((np.exp(1j * x) * (1 + 2j)).real))
    np.testing.assert_allclose(wave(x), -np.sin(x) - 2 * np.cos(x), rtol=1e-12)


def test_special_numbers_of_means_and_reciprocals():
    """A mean is a quotient of complex numbers, of which one part that is not a number makes both so."""
    nan, inf = np.nan, np.inf
    numbers = (0.0, -0.0, 1.0, -2.5, inf, -inf, nan, 1e-310, 1e200)
    z = np.array([complex(a, b) for a in numbers for b in numbers])

    def program(z):
        rows = z[:80].reshape(40, 2)
        return (
            np.reciprocal(z),
            rows.mean(axis=1),
            rows.mean(1, keepdims=True),
            np.mean(rows.T[:, :3], axis=(0, -1)),
            z[:3].mean(),
        )

    with np.errstate(all="ignore"):
        for got, wanted in zip(cdynamo.optimize(program)(z), program(z), strict=True):
            assert type(got) is type(wanted)
            for part in ("real", "imag"):
                a, b = getattr(got, part), getattr(wanted, part)
                np.testing.assert_array_equal(a, b)
                known = ~np.isnan(b)
                np.testing.assert_array_equal(np.signbit(a)[known], np.signbit(b)[known])


def test_squeeze_without_anything_to_squeeze():
    def program(z, w):
        return np.squeeze(z) is z, z.squeeze() is z, np.squeeze(w) is w, np.squeeze(w), np.squeeze(z, ())

    z = np.array([1 + 2j] * 3)
    assert_same(cdynamo.optimize(program)(z, z[None]), program(z, z[None]))
