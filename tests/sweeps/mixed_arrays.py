"""Calls with arrays, NumPy's scalars, numbers and lists of any dtypes, shapes and layouts together: NumPy's outcome each time,
and what it leaves in the operands.

    python tests/sweeps/mixed_arrays.py                # some three minutes on one core
    python tests/sweeps/mixed_arrays.py --only where   # expressions that contain this

Each expression is called with operands that are drawn from a few kinds, most of which do not go together, compiled for each alone and
as one function. Errors are compared by their types. The work is done in another process: a crash costs one expression. Last line:
'N same, M differ, K crashed'. Exit status 1 if M or K is not 0.
"""

from __future__ import annotations

import operator
import random
import sys
import zlib
from typing import Any

from expressions import CALLS, Check, check_operands, main

DTYPES = "float64 float32 float16 int64 int32 int8 uint8 uint32 bool complex128".split()
SHAPES = [(2, 3), (3,), (), (1, 3), (3, 2), (0, 3), (2, 3, 3), (1,)]
FORMS = ["C", "C", "C", "F", "reversed", "strided", "read-only", "scalar", "number", "list"]

# p, q and r are the operands.
EXPRESSIONS = """
p + q
p - q
p * q
p / q
p // q
p % q
p ** q
p & q
p | q
p ^ q
p << q
p >> q
p @ q
p < q
p == q
p != q
-p
~p
abs(p)
+p
divmod(p, q)
not p
operator.iadd(p, q)
operator.isub(p, q)
operator.imul(p, q)
operator.itruediv(p, q)
operator.ifloordiv(p, q)
operator.ipow(p, q)
operator.iand(p, q)
operator.ior(p, q)
operator.ilshift(p, q)
operator.setitem(p, 0, q)
operator.setitem(p, ..., q)
operator.setitem(p, (slice(None), 0), q)
operator.setitem(p, q, r)
operator.setitem(p, q > 0, r)
p[q]
p[q > 0]
p[0]
p[..., 1]
p[:, None]
p[::-1]
p[1:, 0]
p[[0, 1]]
p[[0, 1], q]
p[q, r]
p.sum()
p.sum(q)
p.sum(0)
p.sum(-1, keepdims=True)
p.sum(dtype=np.float32)
p.sum(axis=(0, 1))
p.prod()
p.mean()
p.mean(0)
p.mean(dtype=np.float32)
p.std()
p.var(0, ddof=1)
p.max()
p.min(0)
p.argmax()
p.argmin(0)
p.all()
p.any(0)
p.cumsum()
p.cumsum(0)
p.cumprod(0)
p.ptp() if hasattr(p, "ptp") else np.ptp(p)
p.round(1)
p.clip(0, 1)
p.clip(q, r)
p.conj()
p.real
p.imag
p.T
p.flat[0]
p.ravel()
p.ravel(order="F")
p.reshape(-1)
p.reshape(3, -1)
p.reshape(q.shape)
p.transpose()
p.swapaxes(0, 1)
p.squeeze()
p.repeat(2)
p.repeat(2, 0)
p.take(q)
p.take([0, 1], 0)
p.take(q, 0, mode="clip")
p.astype(np.float32)
p.astype(q.dtype)
p.astype(int)
p.astype(bool)
p.copy()
p.copy(order="F")
p.fill(q)
p.sort()
p.argsort()
p.searchsorted(q)
p.nonzero()
p.diagonal()
p.trace()
p.dot(q)
p.item()
p.tolist()
p.dtype
p.shape
p.strides
p.size
p.ndim
p.nbytes
p.flags.c_contiguous
p.flags.writeable
p.put([0], q)
p.partition(0)
p.compress([True, False], 0)
p.choose([1, 2])
len(p)
float(p)
int(p)
bool(p)
complex(p)
list(p)
sum(p)
max(p)
[v for v in p]
np.add(p, q)
np.add(p, q, out=r)
np.multiply(p, q, out=p)
np.add(p, q, dtype=np.float64)
np.add(p, q, where=p > 0, out=np.zeros((2, 3)))
np.maximum(p, q)
np.fmin(p, q)
np.arctan2(p, q)
np.hypot(p, q)
np.logaddexp(p, q)
np.copysign(p, q)
np.fmod(p, q)
np.remainder(p, q)
np.power(p, q)
np.float_power(p, q)
np.floor_divide(p, q)
np.bitwise_and(p, q)
np.left_shift(p, q)
np.logical_and(p, q)
np.logical_not(p)
np.equal(p, q)
np.isclose(p, q)
np.allclose(p, q)
np.array_equal(p, q)
np.sqrt(p)
np.exp(p)
np.log1p(abs(p))
np.sin(p)
np.tanh(p)
np.floor(p)
np.rint(p)
np.trunc(p)
np.sign(p)
np.signbit(p)
np.abs(p)
np.square(p)
np.reciprocal(p)
np.cbrt(p)
np.isnan(p)
np.isfinite(p)
np.nan_to_num(p)
np.real(p)
np.angle(p)
np.conj(p)
np.deg2rad(p)
np.invert(p)
np.negative(p)
np.positive(p)
np.modf(p)
np.frexp(p)
np.ldexp(p, q)
np.gcd(p, q)
np.heaviside(p, q)
np.sinc(p)
np.where(p > 0, p, q)
np.where(p, q, r)
np.where(p)
np.clip(p, q, r)
np.clip(p, None, 1)
np.select([p > 0, q > 0], [p, q], 0)
np.choose(p, [q, r])
np.concatenate([p, q])
np.concatenate([p, q], axis=None)
np.concatenate([p, q], -1)
np.stack([p, q])
np.vstack([p, q])
np.hstack([p, q])
np.column_stack([p, q])
np.dstack([p, q])
np.append(p, q)
np.append(p, q, 0)
np.insert(p, 0, q)
np.delete(p, 0)
np.split(p, 2)
np.array_split(p, 2, -1)
np.tile(p, 2)
np.repeat(p, q)
np.roll(p, 1)
np.roll(p, 1, 0)
np.flip(p)
np.rot90(p)
np.broadcast_to(p, (2, 2, 3))
np.broadcast_arrays(p, q)
np.expand_dims(p, 0)
np.squeeze(p, 0)
np.moveaxis(p, 0, -1)
np.atleast_2d(p)
np.pad(p, 1)
np.pad(p, 1, mode="edge")
np.sum(p)
np.sum(p, where=q > 0)
np.mean(p, axis=0)
np.median(p)
np.percentile(p, 30)
np.quantile(p, q)
np.average(p, weights=q)
np.std(p)
np.nansum(p)
np.nanmean(p)
np.nanmax(p)
np.max(p, initial=1)
np.cumsum(p)
np.diff(p)
np.gradient(p)
np.ediff1d(p)
np.trapezoid(p) if hasattr(np, "trapezoid") else 0
np.cross(p, q)
np.dot(p, q)
np.vdot(p, q)
np.inner(p, q)
np.outer(p, q)
np.matmul(p, q)
np.tensordot(p, q, 1)
np.kron(p, q)
np.einsum("ij,kj->ik", p, q)
np.einsum("...i,...i->...", p, q)
np.linalg.norm(p)
np.linalg.norm(p, axis=-1)
np.linalg.det(p)
np.linalg.inv(p)
np.linalg.solve(p, q)
np.trace(p)
np.diag(p)
np.diagonal(p)
np.tril(p)
np.triu(p, 1)
np.eye(3) + p
np.sort(p)
np.sort(p, 0)
np.argsort(p)
np.argmax(p)
np.argwhere(p)
np.nonzero(p)
np.count_nonzero(p)
np.flatnonzero(p)
np.searchsorted(p, q)
np.digitize(p, q)
np.bincount(p)
np.histogram(p, 3)
np.unique(p)
np.isin(p, q)
np.interp(p, q, r)
np.convolve(p, q)
np.correlate(p, q)
np.take(p, q)
np.take_along_axis(p, q, 0)
np.put_along_axis(p, q, r, 0)
np.extract(p > 0, q)
np.place(p, q > 0, [1])
np.putmask(p, q > 0, r)
np.copyto(p, q)
np.copyto(p, q, where=r > 0)
np.fill_diagonal(p, q)
np.zeros_like(p)
np.full_like(p, q)
np.ones_like(p, dtype=q.dtype)
np.empty_like(p).shape
np.asarray(p)
np.array(p, dtype=np.float32)
np.array([p, q])
np.array(p, ndmin=2)
np.ascontiguousarray(p)
np.asfortranarray(p)
np.result_type(p, q)
np.can_cast(p, np.int32) if hasattr(p, "dtype") else 0
np.shape(p)
np.ndim(p)
np.size(p)
np.iscomplexobj(p)
np.meshgrid(p, q)
np.ix_(p, q)
np.indices((2, 3)) + p
np.add.reduce(p)
np.add.reduce(p, 0)
np.add.accumulate(p)
np.add.outer(p, q)
np.maximum.reduce(p)
np.add.at(p, q, r)
np.add.at(p, 0, q)
np.add.reduceat(p, [0, 1])
np.vectorize(lambda v: v + 1)(p)
np.apply_along_axis(np.sum, 0, p)
np.fft.fft(p)
np.fft.rfft(p)
np.lib.stride_tricks.sliding_window_view(p, 2, 0)
np.polyval([1, 2, 3], p)
np.arange(p)
np.linspace(p, q, 3)
np.full((2, 3), p)
np.packbits(p)
np.round(p, 1)
np.around(p)
np.fix(p)
np.ptp(p)
np.real_if_close(p)
np.spacing(p)
np.nextafter(p, q)
np.float64(p)
np.int32(p)
np.float32(p) * q
""".strip().splitlines()


def operand(dtype: str, shape: tuple[int, ...], form: str) -> Any:
    import numpy as np

    numbers = np.random.RandomState(zlib.crc32(f"{dtype}{shape}".encode())).rand(*shape) * 4 - 1
    if dtype.startswith("uint"):
        numbers = np.abs(numbers)
    array = np.asarray(numbers > 0.5 if dtype == "bool" else numbers).astype(dtype)
    if form == "number":
        return array.ravel()[0].item() if array.size else 0
    if form == "list":
        return array.tolist()
    if form == "scalar":
        return array.ravel()[0] if array.size else array.dtype.type(0)
    if form == "F":
        return np.asfortranarray(array)
    if form == "reversed" and array.ndim:
        return np.ascontiguousarray(array[::-1])[::-1]
    if form == "strided" and array.ndim:
        return np.repeat(array, 2, -1)[..., ::2]
    array.setflags(write=form != "read-only")
    return array


def draw(source: random.Random, count: int) -> list[tuple[str, tuple[int, ...], str]]:
    """Often of one dtype or shape, as calls that succeed have them, or with an index or a mask among them."""
    kinds = [(source.choice(DTYPES), source.choice(SHAPES), source.choice(FORMS)) for _ in range(count)]
    if source.random() < 0.4:
        dtype = source.choice(["float64", "float32", "int64"])
        kinds = [(dtype, shape, form) for _, shape, form in kinds]
    if source.random() < 0.4:
        kinds = [(dtype, kinds[0][1], form) for dtype, _, form in kinds]
    for dtype in ("int64", "bool"):
        if source.random() < 0.3 and count > 1:
            kinds[1] = (dtype, *kinds[1][1:])
    return kinds


def prepare() -> Check:
    import numpy as np

    import cdynamo

    cdynamo.config.recompile_limit = 10 * CALLS
    names = {"np": np, "operator": operator}
    return lambda expression, state: check_operands(expression, "pqr", names, state, draw, operand)


if __name__ == "__main__":
    sys.exit(main(__file__, __doc__, EXPRESSIONS, prepare))
