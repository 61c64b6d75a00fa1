"""Cases of test_gradcheck_table.py for what PyTorch's own samples do not reach: aliases, methods, NumPy's operators."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

_VF = torch._C._VariableFunctions


def array(*shape: int, shift: float = 0.0) -> np.ndarray:
    """Numbers between 0.1 and 1.1, of both signs and no two alike: no kink lies within a step of differences."""
    count = int(np.prod(shape))
    fractions = (0.37 + 0.618033988749895 * np.arange(1, count + 1) + shift) % 1.0
    return ((fractions + 0.1) * np.where(np.arange(count) % 3 == 1, -1.0, 1.0)).reshape(shape)


# The entry that is meant: a function of float64 tensors, and their shapes.
TORCH = {
    "aminmax": (lambda x: x.aminmax(dim=0).max * x.aminmax(dim=0).min, [(2, 3)]),
    "alias": (lambda x: x[...] * x, [(2, 3)]),
    "where_of_self": (lambda x, y: (x * x).where(y > 0, y.exp()) * y.where(x > 0, 2.0), [(2, 3), (3,)]),
    "swapaxes": (lambda x: x.swapaxes(0, 1) * 2, [(2, 3)]),
    "mT": (lambda x: torch.adjoint(x) * 2, [(2, 2, 3)]),
    "type_as": (lambda x, y: x.type_as(y) * y, [(2, 3), (2, 3)]),
    "cpu": (lambda x: x.cpu(memory_format=torch.channels_last) * x, [(1, 2, 2, 3)]),
    "copy": (lambda x, y: (x * 2).copy_(y) * x, [(2, 3), (3,)]),
    "zero": (lambda x: (x * 2).zero_() + x, [(2, 3)]),
    "convolution": (
        lambda x, w: torch.convolution(x, w, None, [1], [1], [1], False, [0], 1),
        [(1, 2, 4), (2, 2, 3)],
    ),
    "fmod": (lambda x, y: torch.fmod(x * 3, y), [(2, 3), (2, 3)]),
    "cdist": (lambda x, y: torch.cdist(x, y), [(2, 3), (2, 3)]),
    "upsample_nearest1d": (lambda x: F.interpolate(x * x, size=6), [(1, 2, 3)]),
    "upsample_nearest2d": (lambda x: F.interpolate(x * x, scale_factor=2), [(1, 2, 2, 3)]),
    "upsample_nearest3d": (lambda x: F.interpolate(x * x, size=(2, 2, 4)), [(1, 1, 2, 1, 2)]),
    "upsample_linear1d": (lambda x: F.interpolate(x * x, size=9, mode="linear"), [(1, 2, 3)]),
    "upsample_bilinear2d": (lambda x: F.interpolate(x * x, scale_factor=2, mode="bilinear"), [(1, 2, 2, 3)]),
    "upsample_trilinear3d": (lambda x: F.interpolate(x * x, size=(2, 2, 4), mode="trilinear"), [(1, 1, 2, 1, 2)]),
    "core.prod": (lambda x: x.prod(1), [(2, 3)]),
    "core.min": (lambda x: (x * x).min(0)[0], [(2, 3)]),
    "core.logcumsumexp": (lambda x: x.logcumsumexp(1), [(2, 3)]),
    "core.broadcast_tensors": (lambda x, y: _VF.broadcast_tensors([x * x, y * y]), [(2, 3), (3,)]),
    "core.meshgrid": (lambda x, y: _VF.meshgrid([x * x, y * y], indexing="ij"), [(2,), (3,)]),
    "func.vmap": (lambda x, y: torch.vmap(lambda r: r.sin() * y)(x), [(2, 3), (3,)]),
    "core.sdpa": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(1, 1, 3, 2)] * 3),
    "autograd.grad": (
        lambda x: torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)[0] * x,
        [(3,)],
    ),
}

CASTS = {
    "core.to_float32": torch.Tensor.float,
    "core.to_float16": torch.Tensor.half,
    "core.to_bfloat16": torch.Tensor.bfloat16,
}

# Entries whose results have no history in eager, most of them since they are no floats.
NOT_DIFFERENTIABLE = {
    "detach": lambda x: x.detach(),
    "from_numpy": lambda x: torch.from_numpy(x.detach().numpy()),
    "data": lambda x: x.data,
    "isclose": lambda x: torch.isclose(x, x + 1),
    "isreal": lambda x: torch.isreal(x),
    "count_nonzero": lambda x: x.count_nonzero(),
    "argmax": lambda x: x.argmax(0),
    "argmin": lambda x: x.argmin(0),
    "any": lambda x: x.any(),
    "all": lambda x: x.all(),
    "core.to_int64": lambda x: x.long(),
    "core.to_int32": lambda x: x.int(),
    "core.to_int16": lambda x: x.short(),
    "core.to_int8": lambda x: x.char(),
    "core.to_uint8": lambda x: x.abs().byte(),
    "core.to_bool": lambda x: x.bool(),
    "one_hot": lambda x: F.one_hot((x > 0).long(), 3),
}

# The same of NumPy: functions of float64 arrays.
_3 = np.array([0.5, -0.3, 0.8])
NUMPY = {
    "np.sum": (lambda x: np.sum(x * x, axis=0), [(2, 3)]),
    "np.prod": (lambda x: np.prod(x, axis=1), [(2, 3)]),
    "np.nansum": (lambda x: np.nansum(x * x, axis=1), [(2, 3)]),
    "np.nanprod": (lambda x: np.nanprod(x, axis=1), [(2, 3)]),
    "np.remainder": (lambda x, y: np.remainder(x * 3, y), [(2, 3), (2, 3)]),
    "np.mean": (lambda x: np.mean(x * x, axis=0), [(2, 3)]),
    "np.nanmean": (lambda x: np.nanmean(x * x, axis=0), [(2, 3)]),
    "np.var": (lambda x: np.var(x, axis=1), [(2, 3)]),
    "np.std": (lambda x: np.std(x, axis=1, ddof=1), [(2, 3)]),
    "np.average": (lambda x, w: np.average(x, axis=1, weights=w * w + 1), [(2, 3), (3,)]),
    "np.max": (lambda x: np.max(x * x, axis=0), [(2, 3)]),
    "np.min": (lambda x: np.min(x * x, axis=0), [(2, 3)]),
    "np.ptp": (lambda x: np.ptp(x * x, axis=1), [(2, 3)]),
    "np.linalg_norm": (lambda x: np.linalg.norm(x, axis=1), [(2, 3)]),
    "np.cumsum": (lambda x: np.cumsum(x * x, axis=1), [(2, 3)]),
    "np.cumprod": (lambda x: np.cumprod(x, axis=1), [(2, 3)]),
    "np.diff": (lambda x: np.diff(x * x, axis=1), [(2, 4)]),
    "np.trapezoid": (lambda x: getattr(np, "trapezoid", getattr(np, "trapz", None))(x * x, axis=1), [(2, 3)]),
    "np.sign": (lambda x: np.sign(x) * x * x, [(4,)]),
    "np.rint": (lambda x: np.rint(x) * x * x, [(4,)]),
    "np.fabs": (lambda x: np.fabs(x) * x, [(4,)]),
    "np.cbrt": (lambda x: np.cbrt(x), [(4,)]),
    "np.reciprocal": (lambda x: np.reciprocal(x), [(4,)]),
    "np.square": (lambda x: np.square(x) * x, [(4,)]),
    "np.positive": (lambda x: np.positive(x) * x, [(4,)]),
    "np.conjugate": (lambda x: np.conjugate(x) * x, [(4,)]),
    "np.clip": (lambda x: np.clip(x, -0.52, 0.51) * x, [(6,)]),
    "np.round": (lambda x: np.round(x) * x * x, [(4,)]),
    "np.nan_to_num": (lambda x: np.nan_to_num(x) * x, [(4,)]),
    "np.sinc": (lambda x: np.sinc(x), [(4,)]),
    "np.expand_dims": (lambda x: np.expand_dims(x, 1) * x, [(3,)]),
    "np.squeeze": (lambda x: np.squeeze(x, 1) ** 2, [(3, 1)]),
    "np.swapaxes": (lambda x: np.swapaxes(x, 0, 1) ** 2, [(2, 3)]),
    "np.moveaxis": (lambda x: np.moveaxis(x, 0, 2) ** 2, [(2, 3, 1)]),
    "np.flip": (lambda x: np.flip(x) * x, [(2, 3)]),
    "np.flipud": (lambda x: np.flipud(x) * x, [(2, 3)]),
    "np.fliplr": (lambda x: np.fliplr(x) * x, [(2, 3)]),
    "np.rot90": (lambda x: np.rot90(x) ** 2, [(2, 3)]),
    "np.diagonal": (lambda x: np.diagonal(x) ** 2, [(3, 3)]),
    "np.broadcast_to": (lambda x: np.broadcast_to(x, (2, 3)) ** 2, [(3,)]),
    "np.split": (lambda x: np.split(x, [1], axis=1)[1] ** 2, [(2, 3)]),
    "np.array_split": (lambda x: np.array_split(x, 2)[0] ** 2, [(3,)]),
    "np.atleast_1d": (lambda x: np.atleast_1d(x) ** 2, [()]),
    "np.atleast_2d": (lambda x: np.atleast_2d(x) ** 2, [(3,)]),
    "np.atleast_3d": (lambda x: np.atleast_3d(x) ** 2, [(3,)]),
    "np.concatenate": (lambda x, y: np.concatenate([x, y * x]) ** 2, [(3,), (3,)]),
    "np.stack": (lambda x, y: np.stack([x, y * x]) ** 2, [(3,), (3,)]),
    "np.vstack": (lambda x, y: np.vstack([x, y * x]) ** 2, [(3,), (3,)]),
    "np.hstack": (lambda x, y: np.hstack([x, y * x]) ** 2, [(3,), (3,)]),
    "np.dstack": (lambda x, y: np.dstack([x, y * x]) ** 2, [(3,), (3,)]),
    "np.column_stack": (lambda x, y: np.column_stack([x, y * x]) ** 2, [(3,), (3,)]),
    "np.tile": (lambda x: np.tile(x, 2) ** 2, [(3,)]),
    "np.repeat": (lambda x: np.repeat(x, 2) ** 2, [(3,)]),
    "np.roll": (lambda x: np.roll(x, 1) * x, [(3,)]),
    "np.pad": (lambda x: np.pad(x, 1) ** 2, [(3,)]),
    "np.take": (lambda x: np.take(x, np.array([1, 0, 1]), axis=1) ** 2, [(2, 3)]),
    "np.take_along_axis": (lambda x: np.take_along_axis(x, np.array([[1, 0], [2, 2]]), 1) ** 2, [(2, 3)]),
    "np.tril": (lambda x: np.tril(x) ** 2, [(3, 3)]),
    "np.triu": (lambda x: np.triu(x) ** 2, [(3, 3)]),
    "np.diag": (lambda x: np.diag(x) @ x, [(3,)]),
    "np.matmul": (lambda x, y: np.matmul(x, y), [(2, 3), (3, 2)]),
    "np.dot": (lambda x, y: np.dot(x, y), [(2, 3), (3,)]),
    "np.inner": (lambda x, y: np.inner(x, y), [(2, 3), (2, 3)]),
    "np.vdot": (lambda x, y: np.vdot(x, y), [(3,), (3,)]),
    "np.outer": (lambda x, y: np.outer(x, y), [(3,), (2,)]),
    "np.tensordot": (lambda x, y: np.tensordot(x, y, axes=1), [(2, 3), (3, 2)]),
    "np.trace": (lambda x: np.trace(x) * x, [(3, 3)]),
    "np.cross": (lambda x, y: np.cross(x, y), [(3,), (3,)]),
    "np.kron": (lambda x, y: np.kron(x, y), [(2,), (3,)]),
}
NUMPY_NOT_DIFFERENTIABLE = {
    "np.argmax": lambda x: np.argmax(x),
    "np.argmin": lambda x: np.argmin(x),
    "np.any": lambda x: np.any(x),
    "np.all": lambda x: np.all(x),
    "np.count_nonzero": lambda x: np.count_nonzero(x),
    "np.isclose": lambda x: np.isclose(x, _3),
}

# What no joint graph shows: tests/graph/autograd_test.cpp holds these against differences one by one.
ELSEWHERE = {
    "heaviside": "breaks the graph, as eager has none: tests/python/test_gradients_at_corners.py",
    "core.addmm": "of half types, and on GPUs: tests/graph/autograd_samples.inc, tests/python/test_dtypes.py",
    "core.to_device": "the identity, from one device to another: tests/gpu/test_cuda_capture.py",
    "core.copy": "the identity",
    "core.own": "the identity, in gradients alone",
    "core.follow": "the identity, in gradients alone",
    "core.slope": "its gradient is another's: tests/python/test_dtypes.py",
    "core.softmax": "its gradient is another's: softmax, log_softmax",
    "core.unit_strides": "the identity, in gradients alone",
    "core.cummax_values": "within the derivative of cumprod, of integers",
    "core.cummin_values": "as cummax_values",
    "core.compress": "its sizes depend on data: tests/python/test_masked_sums.py",
    "core.div_trunc": "its slope is zero: nothing of it is left",
    "core.masked_fill": "becomes where",
    "np.full_like": "depends on no number of its operand",
    "core.function": "tests/python/test_user_functions.py",
}
