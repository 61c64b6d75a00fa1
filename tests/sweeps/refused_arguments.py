"""Calls with sizes, dims, counts and widths that are out of range, negative or twice the same: eager's outcome each time.

    python tests/sweeps/refused_arguments.py                 # some two minutes on one core
    python tests/sweeps/refused_arguments.py --only pad      # expressions that contain this

Each expression is called with some of the combinations of a few integers, compiled for each alone and as one function whose
integers change. Errors are compared by their types. The work is done in another process: a crash costs one expression.
Last line: 'N same, M differ, K crashed'. Exit status 1 if M or K is not 0.
"""

from __future__ import annotations

import itertools
import random
import re
import sys
from pathlib import Path
from typing import Any

from expressions import Check, main, outcome, same

NUMBERS = [-9, -4, -3, -2, -1, 0, 1, 2, 3, 4, 7]
COMBINATIONS = 60  # of an expression, at most

# a, b and c are the integers; x a tensor of (2, 3, 4), X the same as an array; see operands().
TORCH = [
    "x.narrow(a, b, c)",
    "x.select(a, b)",
    "x.unfold(a, b, c)",
    "x.split(a, b)",
    "x.split([a, b], c)",
    "x.chunk(a, b)",
    "x.tensor_split(a, b)",
    "x.tensor_split((a, b), c)",
    "x.unbind(a)",
    "x.cumsum(a)",
    "x.cumprod(a)",
    "x.cummax(a)",
    "x.sort(a)",
    "x.argsort(a)",
    "x.topk(a, b)",
    "x.kthvalue(a, b)",
    "x.median(a)",
    "x.mode(a)",
    "x.sum((a, b))",
    "x.mean((a, b))",
    "x.amax((a, b))",
    "x.var(a, correction=b)",
    "x.std((a, b))",
    "x.softmax(a)",
    "F.log_softmax(x, a)",
    "F.glu(x, a)",
    "torch.cat([x, x], a)",
    "torch.stack([x, x], a)",
    "x.repeat(a, b, c)",
    "x.repeat(a, b)",
    "x.expand(a, b, c)",
    "x.expand(a, b, 3, 4)",
    "x.view(a, b)",
    "x.view(a, b, c)",
    "x.reshape(a, b)",
    "x.flatten(a, b)",
    "x.unflatten(a, (b, c))",
    "x.roll(a, b)",
    "x.flip((a, b))",
    "x.permute(a, b, c)",
    "x.movedim(a, b)",
    "x.squeeze(a)",
    "x.unsqueeze(a)",
    "x.diagonal(a, b, c)",
    "x[0].diag(a)",
    "x.tril(a)",
    "F.pad(x, (a, b))",
    "F.pad(x, (a, b, c, 0))",
    "F.pad(x, (a, b), mode='reflect')",
    "F.pad(x, (abs(a), abs(b)), mode='circular')",  # of negative widths eager gives what nobody has written
    "F.pad(x, (a, b), mode='replicate')",
    "F.max_pool1d(x, a, b, c)",
    "F.avg_pool1d(x, a, b, c)",
    "F.max_pool2d(x, a, b, c)",
    "F.avg_pool2d(x, a, b, c)",
    "F.adaptive_avg_pool1d(x, a)",
    "F.adaptive_max_pool2d(x, (a, b))",
    "F.conv1d(x, w, None, a, b, c)",
    "F.conv1d(x, w, None, 1, 0, 1, a)",
    "F.conv_transpose1d(x, wt, None, a, b, c)",
    "F.conv_transpose1d(x, wt, None, 2, a, b)",
    "F.one_hot(i, a)",
    "F.embedding(i + a, x[0])",
    "F.interpolate(x, size=a)",
    "F.interpolate(x, size=a, mode='linear')",
    "F.layer_norm(x, (a, b))",
    "F.group_norm(x, a)",
    "F.pixel_shuffle(y, a)",
    "F.pixel_unshuffle(y, a)",
    "torch.arange(a, b, c)",
    "torch.linspace(a, b, c)",
    "torch.full((a, b), 1.) + x.sum()",
    "torch.zeros(a, b) + x.sum()",
    "torch.eye(a, b) + x.sum()",
    "torch.tril_indices(a, b, c)",
    "x.new_zeros(a, b)",
    "x.norm(a, b)",
    "x.renorm(2, a, b)",
    "torch.linalg.vector_norm(x, a, b)",
    "x.as_strided((2, b), (b, c))",
    "x.as_strided((2, 2), (a, b), c)",
    "x.repeat_interleave(a, b)",
    "torch.cross(x, x, dim=a)",
    "x.gather(a, i.reshape(1, 2, 2) + b)",
    "x.index_select(a, i.flatten() + b)",
    "x.take(i + a * b)",
    "x.scatter(a, i.reshape(1, 2, 2) + b, 1.)",
    "x.index_add(a, i.flatten()[:2] + b, x[:2])",
    "x[a, b]",
    "x[a:b:c] if c>0 else x[a:b]",
    "x[:, a:b]",
    "x[i + a]",
    "x.logsumexp((a, b))",
    "F.cosine_similarity(x, x, a)",
    "F.normalize(x, 2, a)",
    "x.quantile(a * 0.3, b)",
    "x.argmax(a)",
    "x.all(a)",
    "x.diff(a, b)",
    "torch.trapezoid(x, dim=a)",
    "torch.rot90(x, a, (b, c))",
    "F.unfold(y, a, b, c)",
    "F.fold(z, (a, b), c)",
    "x.clamp(a, b)",
    "F.dropout(x, a * 0.5, False)",
    "torch.bincount(i.flatten() + a, minlength=b)",
    "torch.channel_shuffle(y, a)",
    "F.nll_loss(x[0], i[0].repeat(2)[:3] + a)",
    "F.cross_entropy(x[0], i[0].repeat(2)[:3] + a)",
    "F.batch_norm(x, torch.zeros(a), torch.ones(b))",
    "F.prelu(x, torch.ones(a))",
    "x.logcumsumexp(a)",
    "torch.searchsorted(x[0, 0], x[0], side='left' if a else 'right')",
    "x.swapaxes(a, b)",
    "torch.bmm(x, x[:, :a].mT.expand(2, 4, b))",
    "torch.addmm(x[0, :a], x[0], x[0].mT)",
    "x @ x[0, :a].mT",
    "torch.tensordot(x, x, a)",
    "x.masked_fill(x > a, b)[c]",
    "x[0, 0].repeat(8).unfold(0, a, b)",
    # shapes that do not fit
    "x[:, :a] + x[..., :b]",
    "x[:, :a] * x[..., :b] + x",
    "torch.where(x > 0, x[:, :a], x[..., :b])",
    "torch.addcmul(x, x[:, :a], x[..., :b])",
    "x.lerp(x[:, :a], x[..., :b])",
    "x.clamp(x[:, :a], x[..., :b])",
    "x.masked_fill(x[:, :a] > 0, b)",
    "x.masked_scatter(x[:, :a] > 0, x[..., :b])",
    "x.clone().add_(x[:, :a])",
    "x.clone().copy_(x[..., :a])",
    "torch.cat([x[:, :a], x[..., :b]], c)",
    "torch.stack([x[:, :a], x[:, :b]], c)",
    "torch.hstack([x[:a], x[:b]])",
    "torch.bmm(x[:a], x.mT[:b])",
    "torch.mm(x[0, :, :a], x[0, :b].mT)",
    "x[..., :a] @ x[:, :b].mT",
    "torch.mv(x[0], x[0, 0, :a])",
    "torch.dot(x[0, 0, :a], x[1, 0, :b])",
    "torch.outer(x[0, 0, :a], x[0, :, b])",
    "torch.baddbmm(x[:, :a], x, x.mT[..., :b])",
    "torch.addmv(x[0, :a, 0], x[0], x[0, 0, :b])",
    "torch.einsum('bij,bkj->bik', x[..., :a], x[..., :b])",
    "torch.einsum('ij,jk->ik', x[0, :, :a], x[0, :b])",
    "torch.tensordot(x[:, :a], x[:, :b], dims=([1], [1]))",
    "torch.kron(x[0, :a], x[0, :b])",
    "torch.cdist(x[..., :a], x[..., :b])",
    "F.linear(x[..., :a], x[0, :, :b], x[0, :c, 0])",
    "F.bilinear(x[..., :a], x[..., :b], torch.ones(2, 4, 4))",
    "F.conv1d(x[:, :a], w[:, :b], x[0, 0, :c])",
    "F.conv2d(y, torch.ones(2, 4, a, b))",
    "F.mse_loss(x, x[:, :a])",
    "F.binary_cross_entropy_with_logits(x, x[:, :a].sigmoid(), pos_weight=x[0, 0, :b])",
    "F.cross_entropy(x[0, :a], i.flatten()[:b])",
    "F.cross_entropy(x[0, :2], i[0], weight=x[0, 0, :a])",
    "F.nll_loss(x[:, :a], i[:, :b])",
    "F.cosine_similarity(x[:, :a], x[..., :b], -1)",
    "F.scaled_dot_product_attention(x[..., :a], x[:, :b], x[..., :c])",
    "F.scaled_dot_product_attention(x, x, x, attn_mask=x[:, :a, :b])",
    "F.layer_norm(x, (4,), x[0, 0, :a], x[0, 0, :b])",
    "F.group_norm(y, 2, torch.ones(a + 4), torch.ones(b + 4))",
    "F.batch_norm(x, x[0, :a, 0].clone(), x[0, :b, 0].clone(), training=c > 0)",
    "F.embedding(i, x[0, :a])",
    "F.embedding_bag(i, x[0, :a])",
    "x.gather(1, i[None, :a].expand(2, -1, -1))",
    "x.scatter(1, i[None, :a].expand(2, -1, -1), x[:, :b])",
    "x.scatter_add(2, i[None].expand(2, -1, -1) + a, x[..., :b])",
    "x.index_add(1, i[0, :a], x[:, :b])",
    "x.index_copy(1, i[0, :a], x[:, :b])",
    "x.index_put((i[0], i[1, :a]), x[0, :b])",
    "x[i[:a], i[:, :b]]",
    "x[x[:, :a] > 0]",
    "x[:, x[0, :a, 0] > 0]",
    "torch.take_along_dim(x, i[None, :, :a], 1)",
    "torch.meshgrid(x[0, 0, :a], x[0, :, :b], indexing='ij')",
    "torch.block_diag(x[0, :a], x[0, :b])",
    "torch.searchsorted(x[:, :a].sort().values, x[:, :b])",
    "torch.bucketize(x, x[0, :a])",
    "torch.cross(x[:, :a], x[:, :b], dim=1)",
    "torch.linalg.solve(x[..., :3], x[:, :a])",
    "torch.linalg.multi_dot([x[0, :, :a], x[0, :b].mT.mT])",
    "torch.block_diag(x[0, :a])",
    "torch.func.vmap(torch.dot)(x[0, :a], x[1, :b])",
    "torch.unflatten(x[..., :a], -1, (b, c))",
    "x.view_as(x[:, :a])",
    "x.tile(a, b)",
    "x.new_full((a,), b)",
    "x.sum_to_size(a, b)",
]
NUMPY = [
    "np.diag(X[0], a)",
    "np.tri(a, b, c)",
    "np.eye(a, b, c)",
    "np.roll(X, a, b)",
    "np.repeat(X, a, b)",
    "np.tile(X, (a, b))",
    "np.split(X, a, b)",
    "np.split(X, [a, b], c)",
    "np.array_split(X, a, b)",
    "np.concatenate([X, X], a)",
    "np.stack([X, X], a)",
    "np.take(X, a, b)",
    "np.take(X, a, b, mode='wrap')",
    "np.delete(X, a, b)",
    "np.insert(X, a, 5., b)",
    "np.swapaxes(X, a, b)",
    "np.moveaxis(X, a, b)",
    "np.rollaxis(X, a, b)",
    "np.expand_dims(X, (a, b))",
    "np.squeeze(X, a)",
    "np.transpose(X, (a, b, c))",
    "np.reshape(X, (a, b))",
    "np.sum(X, axis=(a, b))",
    "np.mean(X, a)",
    "np.std(X, a, ddof=b)",
    "np.argmax(X, a)",
    "np.sort(X, a)",
    "np.cumsum(X, a)",
    "np.partition(X, a, b)",
    "np.diff(X, a, b)",
    "np.gradient(X, axis=a)",
    "np.pad(X, ((a, b), (0, 0), (c, 0)))",
    "np.pad(X, (a, b), mode='edge')",
    "np.pad(X, (a, b), mode='reflect')",
    "np.pad(X, (a, b), mode='wrap')",
    "np.arange(a, b, c)",
    "np.linspace(a, b, c)",
    "np.full((a, b), 1.) + X.sum()",
    "np.broadcast_to(X, (a, b, 3, 4))",
    "X[a, b]",
    "X[a:b:c]",
    "written(X, (a, b))",
    "written(X, slice(a, b))",
    "np.clip(X, a, b)",
    "np.trace(X, a, b, c)",
    "np.diagonal(X, a, b, c)",
    "np.linalg.norm(X, a, b)",
    "np.linalg.norm(X[0], a)",
    "np.tensordot(X, X, a)",
    "np.tensordot(X, X, ((a,), (b,)))",
    "np.cross(X, X, axis=a)",
    "np.linalg.matrix_power(X[0, :, :3], a)",
    "np.vander(X[0, 0], a)",
    "np.digitize(X, [a, b, c])",
    "np.bincount(np.abs(X[0, 0]).astype(int) + a, minlength=b)",
    "np.histogram(X, a)",
    "np.unravel_index(a, (b, c))",
    "np.ravel_multi_index((a, b), (3, 4))",
    "np.choose(I + a, [X[0, 0, :2], X[0, 1, :2]])",
    "np.lib.stride_tricks.sliding_window_view(X, a, b)",
    "np.lib.stride_tricks.as_strided(X, (2, 2), (8 * a if 0<=a<3 else 8, 8))",
    "np.percentile(X, a * 30, axis=b)",
    "np.flip(X, (a, b))",
    "np.apply_along_axis(np.sum, a, X)",
    "np.triu(X[0], a)",
    "np.tril_indices(a, b, c)",
    "np.meshgrid(np.arange(a), np.arange(b))",
    "X[np.ix_([a], [b])]",
    "put(X, a, b)",
    "np.resize(X, (a, b))",
    "np.convolve(X[0, 0], np.ones(max(a, 0)))",
    "np.average(X, axis=a, weights=np.ones(max(b, 1)))",
    "np.cov(X[0], ddof=a)",
    "np.interp(X[0], np.arange(max(a, 1)), np.arange(max(b, 1)))",
    # shapes that do not fit
    "X[:, :a] + X[..., :b]",
    "np.where(X > 0, X[:, :a], X[..., :b])",
    "np.concatenate([X[:, :a], X[..., :b]], c)",
    "np.stack([X[:, :a], X[:, :b]], c)",
    "np.hstack([X[:a], X[:b]])",
    "np.dot(X[0, :, :a], X[0, :b].T)",
    "np.matmul(X[..., :a], X[:, :b].transpose(0, 2, 1))",
    "np.inner(X[0, :, :a], X[0, :, :b])",
    "np.vdot(X[0, :, :a], X[0, :, :b])",
    "np.outer(X[0, 0, :a], X[0, :, :b])",
    "np.kron(X[0, :a], X[0, :b])",
    "np.einsum('bij,bkj->bik', X[..., :a], X[..., :b])",
    "np.cross(X[:, :a], X[:, :b], axis=1)",
    "np.interp(X[0], np.sort(X[0, 0, :a]), X[0, 0, :b])",
    "np.clip(X, X[:, :a], X[..., :b])",
    "np.put_along_axis(X.copy(), I[None, None, :a], b, 2)",
    "np.take_along_axis(X, I[None, None, :a], b)",
    "np.choose(I[:a], [X[0, 0, :2], X[0, 1, :b]])",
    "np.select([X[:, :a] > 0], [X[..., :b]])",
    "np.maximum(X[:, :a], X[..., :b], out=X[..., :c].copy())",
    "np.add(X, 1, out=X[:, :a].copy())",
    "np.sum(X, axis=a, out=X[b].copy())",
    "np.copyto(X.copy(), X[:, :a])",
    "np.linalg.solve(X[..., :3], X[:, :a])",
    "np.average(X, axis=a, weights=X[0, :b, 0])",
    "np.digitize(X, np.sort(X[0, 0, :a]))",
    "np.bincount(I, weights=X[0, 0, :a])",
    "np.convolve(X[0, 0, :a], X[0, 0, :b])",
    "np.corrcoef(X[0, :a], X[0, :b])",
    "np.polyval(X[0, 0, :a], X[0, :, :b])",
    "np.vstack([X[0, :, :a], X[0, :, :b]])",
    "np.block([[X[0, :a], X[0, :b]]])",
    "np.broadcast_arrays(X[:, :a], X[..., :b])",
    "np.cumsum(X, a, out=X[:, :b].copy())",
    "X[I[:a], I[None, :b]]",
    "X[X[:, :a] > 0]",
    "written(X, (I[:a], slice(None, b)))",
    "X.reshape(a, b, -1)",
    "X[0].dot(X[1, :a])",
    "np.append(X[:, :a], X[..., :b], c)",
]


def operands() -> dict[str, Any]:
    import numpy as np
    import torch

    def written(array: np.ndarray, key: Any) -> np.ndarray:
        result = array.copy()
        result[key] = 1
        return result

    def put(array: np.ndarray, index: int, value: int) -> np.ndarray:
        result = array.copy()
        np.put(result, [index], [value])
        return result

    torch.manual_seed(0)
    x, i = torch.randn(2, 3, 4), torch.tensor([[0, 1], [1, 0]])
    return {
        "np": np,
        "torch": torch,
        "F": torch.nn.functional,
        "x": x,
        "i": i,
        "w": torch.randn(6, 3, 2),  # of a convolution of x
        "wt": torch.randn(3, 4, 2),  # of a transposed one
        "y": torch.randn(1, 4, 4, 4),
        "z": torch.randn(1, 8, 4),
        "X": x.numpy().astype(float),
        "I": i[0].numpy().copy(),
        "written": written,
        "put": put,
    }


def check(expression: str, names: dict[str, Any], state: Path) -> tuple[int, int]:
    """How often the outcomes are the same, and how often not."""
    import cdynamo

    parameters = [name for name in "abc" if re.search(rf"\b{name}\b", expression)]
    function = eval(f"lambda {', '.join(parameters)}: {expression}", dict(names))
    combinations = list(itertools.product(NUMBERS, repeat=len(parameters)))
    random.Random(expression).shuffle(combinations)
    counts = [0, 0]
    for dynamic in (False, None):
        cdynamo.reset()
        fast = cdynamo.optimize(function, dynamic=dynamic)
        for arguments in combinations[:COMBINATIONS]:
            state.write_text(f"{expression} of {arguments}")
            if dynamic is False:
                cdynamo.reset()
            expected, got = outcome(function, arguments), outcome(fast, arguments)
            counts[not same(expected, got)] += 1
            if not same(expected, got):
                print(f"{expression} of {arguments}: {expected!r:.150} | {got!r:.150}", flush=True)
    return counts[0], counts[1]


def prepare() -> Check:
    import cdynamo

    cdynamo.config.recompile_limit = 10 * COMBINATIONS
    names = operands()
    return lambda expression, state: check(expression, names, state)


if __name__ == "__main__":
    sys.exit(main(__file__, __doc__, TORCH + NUMPY, prepare))
