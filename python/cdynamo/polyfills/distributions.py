"""What torch.distributions asks of tensors in forms that the operator table lacks."""

import torch

from cdynamo.polyfills.rules import not_captured, once_differentiable, required


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
    if out is not None or std.numel() == 0:
        not_captured("normal of this kind")
    means = isinstance(mean, torch.Tensor)
    if torch.is_grad_enabled() and (std.requires_grad or (means and mean.requires_grad)):
        not_captured("normal with a gradient")
    if not std.is_floating_point() or (means and (mean.dtype != std.dtype or mean.device != std.device)):
        not_captured("normal of several dtypes")
    if not required((std.min() >= 0).item()):
        not_captured("normal of what are no deviations")
    sizes = torch.broadcast_shapes(mean.shape, std.shape) if means else std.shape
    drawn = torch.empty(sizes, dtype=std.dtype, device=std.device).normal_(generator=generator)
    return drawn.mul_(std).add_(mean)


# Differentiated through what they draw; not twice, as PyTorch has no derivative of the derivative.


class StandardGamma(torch.autograd.Function):
    @staticmethod
    def forward(ctx, concentration, generator):
        drawn = torch.ops.aten._standard_gamma(concentration, generator)
        ctx.save_for_backward(concentration, drawn)
        return drawn

    @staticmethod
    def backward(ctx, grad):
        concentration, drawn = ctx.saved_tensors
        return once_differentiable(grad * torch._standard_gamma_grad(concentration, drawn), True), None


def standard_gamma(self, generator=None):
    if torch.is_grad_enabled() and self.requires_grad:
        return StandardGamma.apply(self, generator)
    return torch.ops.aten._standard_gamma(self, generator)


def binomial(count, prob, generator=None):
    if torch.is_grad_enabled() and (count.requires_grad or prob.requires_grad):
        not_captured("binomial with a gradient, which PyTorch does not have")
    return torch.ops.aten.binomial(count, prob, generator)


class RaisedToTiny(torch.autograd.Function):
    """What eager writes behind autograd's back."""

    @staticmethod
    def forward(ctx, x):
        return x.clamp(min=torch.finfo(x.dtype).tiny)

    @staticmethod
    def backward(ctx, grad):
        return grad


def gamma_rsample(self, sample_shape=(), generator=None):
    """Of torch.distributions.Gamma; `generator` from torch 2.14 on."""
    shape = self._extended_shape(sample_shape)
    value = torch._standard_gamma(self.concentration.expand(shape), generator) / self.rate.expand(shape)
    return RaisedToTiny.apply(value)


class SampledDirichlet(torch.autograd.Function):
    @staticmethod
    def forward(ctx, concentration):
        drawn = torch._sample_dirichlet(concentration)
        ctx.save_for_backward(drawn, concentration)
        return drawn

    @staticmethod
    def backward(ctx, grad):
        drawn, concentration = ctx.saved_tensors
        total = concentration.sum(-1, True).expand_as(concentration)
        gradient = torch._dirichlet_grad(drawn, concentration, total)
        return once_differentiable(gradient * (grad - (drawn * grad).sum(-1, True)), True)


def dirichlet_rsample(self, sample_shape=()):
    """Of torch.distributions.Dirichlet."""
    concentration = self.concentration.expand(self._extended_shape(sample_shape))
    return SampledDirichlet.apply(concentration)
