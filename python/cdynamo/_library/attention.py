"""scaled_dot_product_attention on a GPU: which of PyTorch's kernels eager would choose, and that kernel as a library
call whose derivative is PyTorch's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from cdynamo._library.tensors import Mispredicted, empty, hand_over

_aten = torch.ops.aten

# What eager's choice depends on beside the tensors.
_SETTINGS = [
    getattr(torch._C, name)
    for name in (
        "_get_flash_sdp_enabled",
        "_get_mem_efficient_sdp_enabled",
        "_get_cudnn_sdp_enabled",
        "_get_math_sdp_enabled",
        "_get_overrideable_sdp_enabled",
        "_get_fa3_sdp_enabled",
        "_get_sdp_priority_order",
        "_get_deterministic_algorithms",
    )
    if hasattr(torch._C, name)
]


def _settings() -> tuple:
    return tuple(str(setting()) for setting in _SETTINGS)


@dataclass(frozen=True)
class Options:
    dropout: float
    causal: bool
    scale: float
    logsumexp: bool  # a gradient will be asked for


def _rng(seed: torch.Tensor, offset: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """What a backward needs to draw the same numbers, as int64."""
    if seed.dtype == torch.uint64:  # flash: both in one
        return seed.view(torch.int64)
    return torch.stack([seed, offset]).to(like.device, non_blocking=True)


def _flash(q, k, v, mask, o: Options):
    out, lse, *_, rng, unused, _ = _aten._scaled_dot_product_flash_attention(
        q, k, v, o.dropout, o.causal, False, scale=o.scale
    )
    return out, lse, rng, unused


def _flash_backward(grad, q, k, v, mask, out, lse, rng, o: Options, wanted):
    rng = q.new_empty(2, dtype=torch.int64) if rng is None else rng
    unused = q.new_empty((), dtype=torch.uint64)
    args = (grad, q, k, v, out, lse, None, None, q.shape[2], k.shape[2], o.dropout, o.causal)
    return _aten._scaled_dot_product_flash_attention_backward(*args, rng.view(torch.uint64), unused, scale=o.scale)


def _bias(mask: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor | None:
    """As the memory-efficient kernel wants it: rows begin at multiples of 16 elements."""
    if mask is None:
        return None
    if mask.stride(-1) != 1 or any(stride % 16 for stride in mask.stride()[:-1]):
        length = mask.shape[-1]
        mask = torch.nn.functional.pad(mask, (0, -length % 16 or 16))[..., :length]
    return mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])


def _efficient(q, k, v, mask, o: Options):
    bias = _bias(mask, q, k)
    return _aten._scaled_dot_product_efficient_attention(q, k, v, bias, o.logsumexp, o.dropout, o.causal, scale=o.scale)


def _efficient_backward(grad, q, k, v, mask, out, lse, rng, o: Options, wanted):
    # The kernel takes the two from the host, but for a CUDA graph.
    numbers = torch.zeros(2, dtype=torch.int64) if rng is None else rng
    on_host = rng is not None and not torch.cuda.is_current_stream_capturing()
    seed, offset = (numbers.cpu() if on_host else numbers).unbind()
    args = (grad, q, k, v, _bias(mask, q, k), out, lse, seed, offset, o.dropout, wanted, o.causal)
    *found, bias = _aten._scaled_dot_product_efficient_attention_backward(*args, scale=o.scale)
    return *found, bias if mask is None or bias is None else bias.sum_to_size(mask.shape)


def _cudnn(q, k, v, mask, o: Options):
    out, lse, *_, seed, offset, _ = _aten._scaled_dot_product_cudnn_attention(
        q, k, v, mask, o.logsumexp, o.dropout, o.causal, False, scale=o.scale
    )
    return out, lse, seed, offset


def _cudnn_backward(grad, q, k, v, mask, out, lse, rng, o: Options, wanted):
    numbers = q.new_zeros(2, dtype=torch.int64) if rng is None else rng
    seed, offset = numbers.unbind()
    args = (grad, q, k, v, out, lse, seed, offset, mask, None, None, q.shape[2], k.shape[2], o.dropout, o.causal)
    return _aten._scaled_dot_product_cudnn_attention_backward(*args, scale=o.scale)


@dataclass(frozen=True)
class _Kernel:
    forward: Callable
    backward: Callable
    multiple: int = 1  # the head's size is padded to one of it


# By torch.nn.attention.SDPBackend; 0 multiplies matrices.
_KERNELS = {
    1: _Kernel(_flash, _flash_backward, 8),
    2: _Kernel(_efficient, _efficient_backward),
    3: _Kernel(_cudnn, _cudnn_backward),
}


class Attention:
    """A call of one kernel, as `call.Call` is one of an operator. Its results: the output; where a gradient will
    be asked for, the log-sum-exp; with dropout, the state of the random numbers too. Its backward is given these as
    well."""

    def __init__(self, choice: int, options: Options, num_operands: int) -> None:
        kernel = _KERNELS[choice]
        self.name = "aten::scaled_dot_product_attention"
        self.__name__ = self.__qualname__ = kernel.forward.__name__.strip("_") + "_attention"
        self.attributes = f"{self.__name__}, {options}"
        self.multiple = kernel.multiple
        # Called as it is without Python (runtime/library/torch_attention.h).
        self.native = None
        if choice in (1, 2) and not options.dropout:
            self.native = (choice, options.causal, options.scale, options.logsumexp)
        self.stale = False
        self.types: list[tuple] = []
        self._kernel, self._options, self._num_operands = kernel, options, num_operands
        self._settings = _settings()
        # As core.library has it: the output and all operands have gradients, and the backward reads the results.
        self.differentiable = 1 | ((1 << num_operands) - 1) << 10 | 1 << 20 if options.logsumexp else -1

    def __call__(self, *operands: torch.Tensor) -> list[torch.Tensor]:
        q, k, v, mask = (*operands, None)[:4]
        if _settings() != self._settings:
            self.stale = True
            raise Mispredicted("eager chooses another kernel for attention now")
        with torch.no_grad():
            out, lse, seed, offset = self._kernel.forward(q, k, v, mask, self._options)
            results = [out]
            if self._options.logsumexp:
                results += [lse, _rng(seed, offset, q)] if self._options.dropout else [lse]
        return results

    def derivative(self, incoming: int) -> Callable[..., list[torch.Tensor]]:
        """From operands, results and the output's gradient to the gradients of the operands."""

        def backward(*tensors: torch.Tensor) -> list[torch.Tensor]:
            found = self._gradients(tensors, [True] * self._num_operands)
            return [torch.zeros_like(x) if g is None else g for x, g in zip(tensors, found[: self._num_operands])]

        backward.__name__ = "scaled_dot_product_attention_backward"
        return backward

    def _gradients(self, tensors: Sequence[torch.Tensor], wanted: Sequence[bool]) -> tuple:
        q, k, v, mask = (*tensors[: self._num_operands], None)[:4]
        out, lse, rng = (*tensors[self._num_operands : -1], None)[:3]
        wanted = [*wanted, False][:4]
        with torch.no_grad():
            return self._kernel.backward(tensors[-1], q, k, v, mask, out, lse, rng, self._options, wanted)

    def run(self, incoming: int, inputs: list[torch.Tensor], outputs: Sequence) -> list[torch.Tensor | None]:
        """As `call.Call.run`."""
        for i in range(3):
            if inputs[i].stride(-1) != 1 and inputs[i].shape[-1] != 1:
                inputs[i] = inputs[i].contiguous()
        if incoming:
            results = self._gradients(inputs, [output is not None for output in outputs])
        else:
            results = self(*inputs)
        return hand_over(inputs, outputs, results)


def describe(operands: Sequence[tuple], options: tuple, gradients: Sequence[bool]) -> Attention | str | None:
    """The call of the kernel that eager would choose; None where it has none for this and multiplies matrices.

    `operands`: dtype, sizes, strides and device of query, key, value and perhaps the mask. `options`: dropout,
    is_causal, scale or None, enable_gqa. `gradients`: which operands have one.
    """
    dropout, causal, scale, gqa = options
    try:
        # The choice looks at everything but the content.
        real = [
            torch.empty_strided(sizes, strides, dtype=dtype, device=device, requires_grad=gradient)
            for (dtype, sizes, strides, device), gradient in zip(operands, gradients)
        ]
        q, k, v, mask = (*real, None)[:4]
        with torch.set_grad_enabled(any(gradients)):
            choice = torch._fused_sdp_choice(q, k, v, mask, dropout, causal, scale=scale, enable_gqa=gqa)
        kernel = _KERNELS.get(choice)
        no_kernel = kernel is None or any(0 in sizes for _, sizes, _, _ in operands)
        if no_kernel or mask is not None and causal:  # the latter is an error of eager's
            return None
        scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
        call = Attention(choice, Options(dropout, causal, scale, any(gradients)), len(operands))
        padding = -q.shape[-1] % kernel.multiple
        contentless = [empty(operand) for operand in operands]
        contentless[:3] = [torch.nn.functional.pad(x, (0, padding)) if padding else x for x in contentless[:3]]
        device = operands[0][-1]
        call.types = [(x.dtype, tuple(x.shape), x.stride(), device) for x in call(*contentless)]
    except Exception as error:  # eager raises its own
        return f"{type(error).__name__}: {str(error).splitlines()[:1]}"
    return call
