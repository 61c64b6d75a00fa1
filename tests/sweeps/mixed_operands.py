"""Calls with tensors of any dtypes and shapes together: eager's outcome each time, and what it leaves in the operands.

    python tests/sweeps/mixed_operands.py                     # some three minutes on one core
    python tests/sweeps/mixed_operands.py --only scatter      # expressions that contain this

Each expression is called with tensors that are drawn from a few dtypes and shapes, most of which do not go together, compiled for
each alone and as one function. Errors are compared by their types. The work is done in another process: a crash costs one
expression. Last line: 'N same, M differ, K crashed'. Exit status 1 if M or K is not 0.
"""

from __future__ import annotations

import operator
import random
import sys
import zlib
from typing import Any

from expressions import CALLS, Check, check_operands, main

DTYPES = "float32 float64 bfloat16 float16 int64 int32 uint8 int8 uint16 bool complex64".split()
SHAPES = [(2, 3), (3,), (), (1, 3), (3, 2), (0, 3), (2, 3, 3), (1,)]

# p, q and r are the tensors. Few with out=: an error leaves it resized in eager, or not.
EXPRESSIONS = [
    "p + q",
    "p - q",
    "p * q",
    "p / q",
    "p // q",
    "p % q",
    "p ** q",
    "p & q",
    "p << q",
    "p @ q",
    "p < q",
    "p == q",
    "-p",
    "~p",
    "abs(p)",
    "p.add_(q)",
    "p.sub_(q)",
    "p.mul_(q)",
    "p.div_(q)",
    "p.pow_(q)",
    "p.remainder_(q)",
    "p.copy_(q)",
    "p.fill_(q)",
    "p.masked_fill_(q, 2)",
    "p.masked_fill(q, 2.5)",
    "p.masked_fill(p > 0, q)",
    "p.clamp_(0, 1.5)",
    "p.clamp(min=q)",
    "p.clamp(q, q + 1)",
    "p.sqrt_()",
    "p.exp()",
    "p.sigmoid_()",
    "p.neg_()",
    "p.abs_()",
    "p.round_()",
    "p.round(decimals=1)",
    "p.floor()",
    "p.logical_not_()",
    "p.bitwise_not()",
    "p.zero_()",
    "p.sum(dtype=q.dtype)",
    "p.mean()",
    "p.mean(dtype=q.dtype)",
    "p.prod()",
    "p.var()",
    "p.std(0)",
    "p.norm()",
    "p.max()",
    "p.max(0)",
    "p.argmax()",
    "p.argmax(-1)",
    "p.median()",
    "p.cumsum(0)",
    "p.cumsum_(0)",
    "p.cumprod(-1, dtype=q.dtype)",
    "p.softmax(-1)",
    "p.softmax(0, dtype=q.dtype)",
    "p.log_softmax(0)",
    "p.logsumexp(0)",
    "p.any()",
    "p.all(0)",
    "p.to(q.dtype)",
    "p.to(q)",
    "p.type_as(q)",
    "p.float().to(q.dtype)",
    "p.view(q.dtype)",
    "p.view_as(q)",
    "p.expand_as(q)",
    "p.reshape_as(q)",
    "p.item()",
    "p.tolist()",
    "p[q]",
    "p[0, q]",
    "p[q > 0]",
    "p[..., 0] + q",
    "operator.setitem(p, 0, q)",
    "operator.setitem(p, q, 1)",
    "operator.setitem(p, q > 0, 2)",
    "operator.setitem(p, slice(None), q)",
    "operator.setitem(p, ..., q[0])",
    "p.index_select(0, q)",
    "p.gather(0, q)",
    "p.gather(-1, q)",
    "p.scatter(0, q, 1)",
    "p.scatter_(0, q, r)",
    "p.scatter_add(0, q, r)",
    "p.index_add(0, q, r)",
    "p.index_add_(0, q, r)",
    "p.index_copy(0, q, r)",
    "p.index_fill(0, q, 2)",
    "p.index_put((q,), r)",
    "p.index_put_((q,), r, accumulate=True)",
    "p.masked_select(q)",
    "p.masked_scatter(q, r)",
    "p.take(q)",
    "p.put_(q, r)",
    "p.take_along_dim(q, 0)",
    "torch.where(p, q, r)",
    "torch.where(p > 0, q, r)",
    "torch.where(p > 0, q, 1)",
    "torch.cat([p, q])",
    "torch.cat([p, q], -1)",
    "torch.stack([p, q])",
    "torch.lerp(p, q, 0.5)",
    "torch.lerp(p, q, r)",
    "p.lerp_(q, r)",
    "torch.addcmul(p, q, r)",
    "p.addcmul_(q, r, value=2)",
    "torch.addcdiv(p, q, r)",
    "torch.add(p, q, alpha=2)",
    "torch.add(p, q, alpha=2.5)",
    "torch.sub(p, q, alpha=True)",
    "torch.rsub(p, q)",
    "torch.atan2(p, q)",
    "torch.hypot(p, q)",
    "torch.fmod(p, q)",
    "torch.maximum(p, q)",
    "torch.fmax(p, q)",
    "torch.logaddexp(p, q)",
    "torch.xlogy(p, q)",
    "torch.copysign(p, q)",
    "torch.ldexp(p, q)",
    "torch.gcd(p, q)",
    "torch.bitwise_xor(p, q)",
    "torch.logical_and(p, q)",
    "torch.isclose(p, q)",
    "torch.equal(p, q)",
    "torch.allclose(p, q)",
    "torch.dot(p, q)",
    "torch.mv(p, q)",
    "torch.mm(p, q)",
    "torch.bmm(p, q)",
    "torch.matmul(p, q)",
    "torch.outer(p, q)",
    "torch.addmm(p, q, r)",
    "torch.addmv(p, q, r)",
    "torch.einsum('ij,jk->ik', p, q)",
    "torch.tensordot(p, q, 1)",
    "torch.kron(p, q)",
    "torch.cross(p, q, dim=-1)",
    "torch.cdist(p, q)",
    "torch.bucketize(p, q)",
    "torch.searchsorted(p, q)",
    "torch.isin(p, q)",
    "torch.bincount(p)",
    "torch.bincount(p, q)",
    "torch.histc(p)",
    "torch.unique(p)",
    "torch.nonzero(p)",
    "torch.sort(p)",
    "torch.argsort(p, 0)",
    "torch.topk(p, 1)",
    "torch.flip(p, (0,))",
    "torch.roll(p, 1)",
    "torch.tril(p)",
    "torch.diag(p)",
    "torch.trace(p)",
    "torch.det(p)",
    "torch.linalg.norm(p)",
    "torch.linalg.vector_norm(p, dtype=q.dtype)",
    "torch.nan_to_num(p)",
    "torch.real(p)",
    "torch.angle(p)",
    "torch.polar(p, q)",
    "torch.complex(p, q)",
    "torch.heaviside(p, q)",
    "torch.clamp(p, 0)",
    "torch.clamp(p, max=1.5)",
    "torch.full_like(p, 2.5)",
    "torch.zeros_like(p, dtype=q.dtype)",
    "torch.arange(p.numel(), dtype=q.dtype) + p",
    "torch.full((2,), q.numel(), dtype=p.dtype)",
    "torch.meshgrid(p, q, indexing='ij')",
    "torch.broadcast_tensors(p, q)",
    "torch.result_type(p, q)",
    "torch.promote_types(p.dtype, q.dtype)",
    "torch.can_cast(p.dtype, q.dtype)",
    "torch.add(p, q, out=r)",
    "torch.sum(p, 0, out=r)",
    "F.relu(p)",
    "F.relu_(p)",
    "F.gelu(p)",
    "F.silu(p)",
    "F.softplus(p)",
    "F.elu(p)",
    "F.leaky_relu(p, 0.1)",
    "F.hardtanh(p)",
    "F.linear(p, q)",
    "F.linear(p, q, r)",
    "F.bilinear(p, q, r)",
    "F.embedding(p, q)",
    "F.embedding(q, p)",
    "F.one_hot(p)",
    "F.one_hot(p, 3)",
    "F.mse_loss(p, q)",
    "F.l1_loss(p, q, reduction='none')",
    "F.smooth_l1_loss(p, q)",
    "F.huber_loss(p, q)",
    "F.binary_cross_entropy(p.abs() / 4, q)",
    "F.binary_cross_entropy_with_logits(p, q)",
    "F.cross_entropy(p, q)",
    "F.cross_entropy(p, q, weight=r)",
    "F.nll_loss(p, q)",
    "F.kl_div(p, q)",
    "F.cosine_similarity(p, q, 0)",
    "F.normalize(p, dim=0)",
    "F.layer_norm(p, p.shape[-1:])",
    "F.layer_norm(p, q.shape, r)",
    "F.rms_norm(p, q.shape)",
    "F.batch_norm(p, q, r)",
    "F.batch_norm(p, None, None, q, r, True)",
    "F.group_norm(p, 1, q, r)",
    "F.instance_norm(p)",
    "F.conv1d(p, q)",
    "F.conv1d(p, q, r)",
    "F.conv2d(p, q)",
    "F.max_pool1d(p, 1)",
    "F.avg_pool1d(p, 1)",
    "F.adaptive_avg_pool1d(p, 1)",
    "F.interpolate(p, 2)",
    "F.pad(p, (1, 1))",
    "F.pad(p, (1, 1), value=2.5)",
    "F.pad(p, (1, 0), mode='reflect')",
    "F.unfold(p, 1)",
    "F.scaled_dot_product_attention(p, q, r)",
    "F.prelu(p, q)",
    "F.dropout(p, 0.0)",
    "F.glu(p, -1)",
    "nn.Linear(3, 2)(p).shape",
    "nn.BatchNorm1d(3)(p)",
    "nn.LayerNorm(3)(p)",
    "nn.GroupNorm(1, 3)(p)",
    "nn.Embedding(4, 3)(p).shape",
    "nn.Conv1d(3, 2, 1)(p).shape",
    "nn.GRU(3, 2)(p)[0].shape",
    "nn.LSTM(3, 2)(p)[0].shape",
    "nn.MultiheadAttention(3, 1)(p, p, p)[0].shape",
    "nn.PReLU(3)(p)",
]


def tensor(dtype: str, shape: tuple[int, ...]) -> Any:
    import torch

    generator = torch.Generator().manual_seed(zlib.crc32(f"{dtype}{shape}".encode()))
    numbers = torch.rand(shape, generator=generator) * 4 - 1
    if dtype == "bool":
        return numbers > 0.5
    return (numbers.abs() if dtype.startswith("uint") else numbers).to(getattr(torch, dtype))


def draw(source: random.Random, count: int) -> list[tuple[str, tuple[int, ...]]]:
    """Dtypes and shapes of operands; often alike, as calls that succeed have them, or with an index or a mask among them."""
    kinds = [(source.choice(DTYPES), source.choice(SHAPES)) for _ in range(count)]
    if source.random() < 0.5:
        dtype = source.choice(["float32", "float64", "int64"])
        kinds = [(dtype, shape) for _, shape in kinds]
    if source.random() < 0.4:
        kinds = [(dtype, kinds[0][1]) for dtype, _ in kinds]
    for dtype in ("int64", "bool"):
        if source.random() < 0.3 and count > 1:
            kinds[1] = (dtype, kinds[1][1])
    return kinds


def prepare() -> Check:
    import torch

    import cdynamo

    cdynamo.config.recompile_limit = 10 * CALLS
    names = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, "operator": operator}
    return lambda expression, state: check_operands(
        expression, "pqr", names, state, draw, tensor, lambda: torch.manual_seed(0)
    )


if __name__ == "__main__":
    sys.exit(main(__file__, __doc__, EXPRESSIONS, prepare))
