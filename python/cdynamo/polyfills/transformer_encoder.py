"""nn.TransformerEncoder without nested tensors, to which eager goes over where padding is at the ends of sequences."""

import torch

from cdynamo.polyfills.rules import not_captured


def causal_hint(mask, is_causal=None, size=None):
    """_detect_is_causal_mask without a look at the mask, which says all by itself: the hint is for speed."""
    return is_causal is True


def _may_be_nested(self, src, mask, padding):
    """What TransformerEncoder.forward asks of all but the mask's contents; __init__ has asked the rest."""
    first = self.layers[0]
    if not (torch.backends.mha.get_fastpath_enabled() and getattr(self, "use_nested_tensor", False)):
        return False
    if first.training or src.dim() != 3 or padding is None or mask is not None or torch.is_autocast_enabled():
        return False
    if not getattr(self, "mask_check", True):
        not_captured("an encoder that takes any mask for one of padding at the ends")
    parts = (first.self_attn.out_proj, first.norm1, first.norm2, first.linear1, first.linear2)
    parameters = [first.self_attn.in_proj_weight, first.self_attn.in_proj_bias]
    for part in parts:
        parameters += [part.weight, part.bias]
    return not torch.is_grad_enabled() or not any(x.requires_grad for x in (src, *parameters))


def transformer_encoder(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
    """TransformerEncoder.forward: what nested tensors leave out counts for nothing, and becomes zero."""
    F = torch.nn.functional
    padding = F._canonical_mask(
        mask=src_key_padding_mask,
        mask_name="src_key_padding_mask",
        other_type=F._none_or_dtype(mask),
        other_name="mask",
        target_type=src.dtype,
    )
    mask = F._canonical_mask(
        mask=mask, mask_name="mask", other_type=None, other_name="", target_type=src.dtype, check_other=False
    )
    left_out = None
    if _may_be_nested(self, src, mask, padding):
        is_there = padding.logical_not()
        is_left_aligned = (is_there[:, 1:] <= is_there[:, :-1]).all()
        left_out = is_left_aligned & ~is_there
        padding = padding.masked_fill(left_out, float("-inf"))
    output = src
    for layer in self.layers:
        output = layer(output, src_mask=mask, is_causal=causal_hint(mask, is_causal), src_key_padding_mask=padding)
    if left_out is not None:
        output = output.masked_fill(left_out[:, :, None], 0.0)
    return output if self.norm is None else self.norm(output)
