"""torch operators in terms of others, with eager's results, dtypes and strides."""

import torch

from cdynamo.polyfills.autograd import checkpoint, function_apply  # noqa: F401
from cdynamo.polyfills.batching import (  # noqa: F401
    func_hessian,
    func_jacfwd,
    func_jacrev,
    func_jvp,
    func_linearize,
    func_vmap,
    jacfwd_call,
    jacrev_call,
)
from cdynamo.polyfills.control_flow import (  # noqa: F401
    associative_scan,
    conditional,
    map_steps,
    scan,
    selected_by,
    truth_of,
    while_loop,
)
from cdynamo.polyfills.data_dependent import (  # noqa: F401
    allclose,
    argwhere,
    assert_async,
    bincount,
    check_is_size,
    equal,
    is_all_true,
    is_any_true,
    isin,
    masked_select,
    multinomial,
    nonzero,
    one_hot_of_all,
    repeat_interleave,
    unique,
    unique_consecutive,
    where_true,
)
from cdynamo.polyfills.distributions import (  # noqa: F401
    binomial,
    dirichlet_rsample,
    gamma_rsample,
    is_positive_definite,
    new_like,
    normal_of_deviations,
    standard_gamma,
)
from cdynamo.polyfills.function_transforms import func_grad, func_grad_and_value, func_vjp  # noqa: F401
from cdynamo.polyfills.module_hooks import backward_hook  # noqa: F401
from cdynamo.polyfills.recurrent import (  # noqa: F401
    check_hidden_size,
    gru,
    gru_cell,
    lstm,
    lstm_cell,
    pack_padded_sequence,
    pad_packed_sequence,
    rnn_relu,
    rnn_relu_cell,
    rnn_tanh,
    rnn_tanh_cell,
    weights_have_changed,
)
from cdynamo.polyfills.rules import not_captured, required
from cdynamo.polyfills.training import group_by_device_and_dtype, no_range, number_of, stacked  # noqa: F401
from cdynamo.polyfills.transformer_encoder import causal_hint, transformer_encoder  # noqa: F401


def native_multi_head_attention(
    query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None,
    need_weights=True, average_attn_weights=True, mask_type=None,
):  # fmt: skip
    """The inference path of nn.MultiheadAttention: query is key is value, (batch, length, embed_dim)."""
    batch, length, _ = query.shape
    head = embed_dim // num_head
    if query is key and key is value:
        q, k, v = torch._C._nn.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        weights, biases = qkv_weight.chunk(3, 0), qkv_bias.chunk(3, 0)
        q, k, v = (torch._C._nn.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
    q, k, v = (x.view(batch, x.shape[1], num_head, head).transpose(1, 2) for x in (q, k, v))
    scores = torch.matmul(q * (head**-0.5), k.transpose(2, 3))
    if mask is not None:
        scores = scores.masked_fill(expanded_mask(mask, mask_type, scores), float("-inf"))
    weights = torch.softmax(scores, -1)
    attended = torch.matmul(weights, v).transpose(1, 2).reshape(batch, length, embed_dim)
    out = torch._C._nn.linear(attended, proj_weight, proj_bias)
    if not need_weights:
        return out, None
    return out, weights.mean(1) if average_attn_weights else weights


def expanded_mask(mask, mask_type, scores):
    """Type 0: (length, length); 1: padding, (batch, length); 2: the shape of the scores. Eager makes bools of it."""
    mask = mask.to(torch.bool)
    if mask_type == 1:
        return mask[:, None, None, :]
    return mask


def transformer_encoder_layer_fwd(
    src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
    norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2,
    mask=None, mask_type=None,
):  # fmt: skip
    def norm(x, weight, bias):
        return torch.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attention(x):
        return native_multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
        )[0]

    def feed_forward(x):
        hidden = torch._C._nn.linear(x, ffn_weight_1, ffn_bias_1)
        hidden = torch._C._nn.gelu(hidden) if use_gelu else torch.relu(hidden)
        return torch._C._nn.linear(hidden, ffn_weight_2, ffn_bias_2)

    if norm_first:
        src = src + attention(norm(src, norm_weight_1, norm_bias_1))
        return src + feed_forward(norm(src, norm_weight_2, norm_bias_2))
    src = norm(src + attention(src), norm_weight_1, norm_bias_1)
    return norm(src + feed_forward(src), norm_weight_2, norm_bias_2)


def einsum_terms(equation, operands):
    """The labels of each operand and of the result; dims that an ellipsis stands for have digits."""
    if not isinstance(equation, str):
        not_captured("einsum of this form")
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not arrow:
        labels = "".join(terms).replace(".", "")
        right = "..." + "".join(label for label in sorted(set(labels)) if labels.count(label) == 1)
    if len(terms) != len(operands):
        not_captured("einsum of another number of operands")
    dims = [operand.dim() - len(term) + 3 for term, operand in zip(terms, operands) if "..." in term]
    if min(dims, default=0) < 0 or max(dims, default=0) > 9:
        not_captured("einsum of this form")
    digits = "123456789"[: max(dims, default=0)]
    for i, (term, operand) in enumerate(zip(terms, operands)):
        count = operand.dim() - len(term) + 3
        terms[i] = term.replace("...", digits[len(digits) - count :])
    right = right.replace("...", digits)
    for term, operand in zip(terms, operands):
        if len(term) != operand.dim() or len(set(term)) != len(term):
            not_captured("einsum of this form")
    return terms, right


def einsum_pair(a, a_labels, b, b_labels, kept):
    """One product of two operands: a batched matrix product over the labels that both have and that are not kept."""
    batch = [x for x in a_labels if x in b_labels and x in kept]
    summed = [x for x in a_labels if x in b_labels and x not in kept]
    a_only = [x for x in a_labels if x not in b_labels]
    b_only = [x for x in b_labels if x not in a_labels]
    size = dict(zip(a_labels, a.shape))
    for label, of_b in zip(b_labels, b.shape):
        if label.isdigit() and size.get(label, of_b) != of_b:
            not_captured("einsum whose ellipsis is broadcast")
    size.update(zip(b_labels, b.shape))
    left = a.permute([a_labels.index(x) for x in batch + a_only + summed])
    right = b.permute([b_labels.index(x) for x in batch + summed + b_only])
    shape = [size[x] for x in batch + a_only + b_only]
    n, rows, inner, columns = 1, 1, 1, 1
    for x in batch:
        n = n * size[x]
    for x in a_only:
        rows = rows * size[x]
    for x in summed:
        inner = inner * size[x]
    for x in b_only:
        columns = columns * size[x]
    if torch.is_autocast_enabled("cpu") and inner == 1:
        not_captured("einsum without a sum, under autocast")  # eager multiplies, which autocast leaves alone
    product = torch.bmm(left.reshape(n, rows, inner), right.reshape(n, inner, columns))
    return product.view(shape), batch + a_only + b_only


def einsum(*args):
    """torch.einsum; under autocast of one or two operands without repeated labels or an ellipsis."""
    equation, *operands = args
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    if len(operands) > 2 and torch.backends.opt_einsum.is_available():
        not_captured("einsum whose order of products opt_einsum decides")
    if not torch.is_autocast_enabled("cpu"):
        return torch._C._VariableFunctions.einsum(equation, operands)
    terms, result = einsum_terms(equation, operands)
    if len(operands) > 2:
        not_captured("einsum of more than two operands")
    labels = [list(term) for term in terms]
    values = list(operands)
    # Labels of one operand that the result lacks are summed first.
    for i in range(len(values)):
        others = "".join(term for j, term in enumerate(terms) if j != i) + result
        dropped = [d for d, x in enumerate(labels[i]) if x not in others]
        if dropped:
            values[i] = values[i].sum(dropped)
            labels[i] = [x for x in labels[i] if x in others]
    value, have = values[0], labels[0]
    if len(values) == 2:
        value, have = einsum_pair(value, have, values[1], labels[1], result)
    return value.permute([have.index(x) for x in result])


def trace(input):
    return torch.diagonal(input).sum()


def broadcast_tensors(*tensors):
    shape = torch.broadcast_shapes(*[t.shape for t in tensors])
    # As expand() of C++ the function gives back what has the shape already.
    return tuple(t if t.shape == shape else t.expand(shape) for t in tensors)


def meshgrid(*tensors, indexing=None):
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    if indexing is None:
        not_captured("meshgrid without indexing, which warns")
    if any(t.ndim > 1 or t.dtype != tensors[0].dtype for t in tensors):
        not_captured("meshgrid of such tensors")
    swap = indexing == "xy" and len(tensors) >= 2
    if swap:
        tensors = (tensors[1], tensors[0], *tensors[2:])
    rank = len(tensors)
    shape = [t.numel() for t in tensors]
    grids = []
    for i, t in enumerate(tensors):
        view = [1] * rank
        view[i] = shape[i]
        grids.append(t.view(view).expand(shape))
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def each_of(function, tensors):
    """The function of one tensor, of each of several in a tuple."""
    if len(tensors) == 1:
        tensors = tensors[0]
    return tuple([function(t) for t in tensors]) if isinstance(tensors, (list, tuple)) else function(tensors)


def atleast_1d(*tensors):
    return each_of(torch._C._VariableFunctions.atleast_1d, tensors)


def atleast_2d(*tensors):
    return each_of(torch._C._VariableFunctions.atleast_2d, tensors)


def atleast_3d(*tensors):
    return each_of(torch._C._VariableFunctions.atleast_3d, tensors)


def pixel_shuffle(input, upscale_factor):
    r = upscale_factor
    *batch, channels, height, width = input.shape
    x = input.reshape(*batch, channels // (r * r), r, r, height, width)
    n = len(batch)
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return x.permute(order).reshape(*batch, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input, downscale_factor):
    r = downscale_factor
    *batch, channels, height, width = input.shape
    x = input.reshape(*batch, channels, height // r, r, width // r, r)
    n = len(batch)
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    return x.permute(order).reshape(*batch, channels * r * r, height // r, width // r)


def reduced(loss, reduction):
    if reduction == 1:
        return loss.mean()
    return loss.sum() if reduction == 2 else loss


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    dim = target.dim()
    product = (input1 * input2).sum(dim)
    square1 = (input1 * input1).sum(dim) + 1e-12
    square2 = (input2 * input2).sum(dim) + 1e-12
    cosine = product / (square1 * square2).sqrt()
    zeros = torch.zeros_like(cosine)
    positive = torch.where(target == 1, 1 - cosine, zeros)
    negative = torch.where(target == -1, (cosine - margin).clamp_min(0), zeros)
    return reduced(positive + negative, reduction)


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1):
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


def upsample_nearest(input, output_size, *scales):
    """Row and column i come from floor(i * scale), computed in float32 as eager does."""
    if not input.is_contiguous():
        not_captured("upsampling of a tensor that is not contiguous")
    if scales and isinstance(scales[0], (list, tuple)):
        scales = tuple(scales[0])
    dims = input.dim() - 2
    if output_size is None:
        output_size = [int(input.shape[d + 2] * scales[d]) for d in range(dims)]
    result = input
    for d in range(dims):
        size, out = input.shape[d + 2], output_size[d]
        given = scales[d] if len(scales) == dims else None
        if given is None or given <= 0:
            numerator, denominator = size, out
        else:
            numerator, denominator = 1, int(given)
            if denominator != given:
                not_captured("upsampling by a factor that is no integer")
        if numerator == denominator:
            continue
        rows = [min(i * numerator // denominator, size - 1) for i in range(out)]
        result = result.index_select(d + 2, torch.tensor(rows))
    return result


def weight_norm(v, g, dim=0):
    """g * v / |v|, a norm for each place along `dim`; -1: one norm."""
    return v * (g / (v.norm(2) if dim == -1 else v.norm(2, [d for d in range(v.dim()) if d != dim], keepdim=True)))


def check_with(error_type, cond, message):
    """torch._check and its kin."""
    if type(cond) is not bool:
        not_captured("a check of what is no bool")
    if required(cond):
        return
    if not cond:
        not_captured("a check that fails")


def combine_input_and_mask(op, input, mask, *args):
    """torch.masked: what is masked out becomes what the reduction does not see."""
    if mask is None:
        return input
    masked = torch.masked._ops
    fill_value = masked._reduction_identity(op.__name__, input, *args)
    return masked._where(masked._input_mask(input, mask=mask), input, fill_value)


def deepcopy_parameter(parameter):
    """Parameter.__deepcopy__"""
    return type(parameter)(parameter.data.clone(memory_format=torch.preserve_format), parameter.requires_grad)


def as_plain_tensor(self, cls):
    """`x.as_subclass(torch.Tensor)`: a view."""
    if cls is not torch.Tensor:
        not_captured("as_subclass of another class than torch.Tensor")
    return self.view_as(self)


def result_type(tensor, other):
    """Tensors with dims come before those without, these before numbers: the weaker decides by a higher category."""
    ranks = [(3 if x.dim() > 0 else 2) if isinstance(x, torch.Tensor) else 1 for x in (tensor, other)]
    types = [x.dtype if isinstance(x, torch.Tensor) else dtype_of_number(x) for x in (tensor, other)]
    if ranks[0] == ranks[1]:
        return torch.promote_types(*types)
    strong, weak = types if ranks[0] > ranks[1] else reversed(types)
    if dtype_category(weak) <= dtype_category(strong):
        return strong
    if not strong.is_floating_point:
        return weak
    return {torch.float16: torch.complex32, torch.float64: torch.complex128}.get(strong, torch.complex64)


def dtype_of_number(number):
    if isinstance(number, bool):
        return torch.bool
    if isinstance(number, int):
        return torch.int64
    if isinstance(number, float):
        return torch.get_default_dtype()
    if isinstance(number, complex):
        return torch.promote_types(torch.get_default_dtype(), torch.complex64)
    not_captured("result_type of other than tensors and numbers")


def dtype_category(dtype):
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype == torch.bool else 1


def cov(input, *, correction=1, fweights=None, aweights=None):
    if fweights is not None or aweights is not None:
        not_captured("cov with weights")
    if input.dim() > 2 or not input.is_floating_point():
        not_captured("cov of other than a matrix of floats")
    rows = input.view(1, -1) if input.dim() < 2 else input
    freedom = rows.shape[1] - correction
    if freedom <= 0:
        not_captured("cov without degrees of freedom, which warns")
    rows = rows - (rows.sum(1) / rows.shape[1]).unsqueeze(1)
    return (rows.mm(rows.t()) / freedom).squeeze()


def corrcoef(input):
    covariance = cov(input)
    if covariance.dim() == 0:
        return covariance / covariance
    deviations = covariance.diagonal().sqrt()
    return (covariance / deviations.view(-1, 1) / deviations.view(1, -1)).clip(-1, 1)


def combinations(input, r=2, with_replacement=False):
    if input.dim() != 1 or r != 2:
        not_captured("combinations of other than pairs")
    n = input.shape[0]
    first, second = torch.triu_indices(n, n, 0 if with_replacement else 1, device=input.device)
    return torch.stack([input[first], input[second]], 1)


TYPE_NAMES = {
    torch.bool: "BoolTensor",
    torch.uint8: "ByteTensor",
    torch.int8: "CharTensor",
    torch.int16: "ShortTensor",
    torch.int32: "IntTensor",
    torch.int64: "LongTensor",
    torch.float16: "HalfTensor",
    torch.bfloat16: "BFloat16Tensor",
    torch.float32: "FloatTensor",
    torch.float64: "DoubleTensor",
}


def type_of_tensor(self, dtype=None):
    if dtype is None:
        if self.dtype not in TYPE_NAMES:
            not_captured("type() of such a tensor")
        return ("torch.cuda." if self.is_cuda else "torch.") + TYPE_NAMES[self.dtype]
    if isinstance(dtype, str) and not self.is_cuda:
        for wanted, name in TYPE_NAMES.items():
            if dtype == "torch." + name:
                return self.to(wanted)
    not_captured("type() of such an argument")
