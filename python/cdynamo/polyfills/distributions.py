"""What torch.distributions asks of tensors in forms that the operator table lacks."""

import torch

from cdynamo.polyfills.rules import not_captured, required


def new_like(x, *sizes, device=None):
    """`x.new(size)`: of a torch.Size or ints; of anything else it holds that."""
    if len(sizes) == 1 and isinstance(sizes[0], torch.Size):
        sizes = tuple(sizes[0])
    if device is not None or not all(type(size) is int for size in sizes):
        not_captured("new() of data")
    return x.new_empty(sizes or (0,))


def is_positive_definite(self, value):
    """Whether matrices are symmetric and have a Cholesky factor, without a branch on the former."""
    if value.dim() < 2 or value.shape[-2] != value.shape[-1]:
        not_captured("a test of matrices that are not square")
    value = value.detach()
    symmetric = torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)
    return torch.where(symmetric.all(), torch.linalg.cholesky_ex(value).info.eq(0), symmetric)


def normal_of_deviations(mean, std, *, generator=None, out=None):
    """`torch.normal` with a tensor of deviations, which eager refuses where one is negative."""
    if generator is not None or out is not None or std.numel() == 0:
        not_captured("normal of this kind")
    means = isinstance(mean, torch.Tensor)
    if torch.is_grad_enabled() and (std.requires_grad or (means and mean.requires_grad)):
        not_captured("normal with a gradient")
    if not std.is_floating_point() or (means and (mean.dtype != std.dtype or mean.device != std.device)):
        not_captured("normal of several dtypes")
    if not required((std.min() >= 0).item()):
        not_captured("normal of what are no deviations")
    sizes = torch.broadcast_shapes(mean.shape, std.shape) if means else std.shape
    drawn = torch.empty(sizes, dtype=std.dtype, device=std.device).normal_()
    return drawn.mul_(std).add_(mean)
