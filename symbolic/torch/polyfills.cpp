// Which operators of torch are stated in Python: see callables.h.
#include "symbolic/torch/callables.h"

namespace cdynamo::symbolic {
namespace {

constexpr PolyfillRow kPolyfillRows[] = {
    {"torch._transformer_encoder_layer_fwd", "transformer_encoder_layer_fwd"},
    {"torch._native_multi_head_attention", "native_multi_head_attention"},
    {"torch.utils.checkpoint.checkpoint", "checkpoint"},
    {"torch.utils.hooks.BackwardHook", "backward_hook"},
    {"torch.autograd.profiler.record_function", "no_range"},
    {"torch._C.DisableTorchFunctionSubclass", "no_range"},  // of subclasses, which plain tensors are not
    {"torch.optim.optimizer._get_value", "number_of"},
    {"torch.optim.optimizer._stack_if_compiling", "stacked"},
    {"torch.utils._foreach_utils._group_tensors_by_device_and_dtype", "group_by_device_and_dtype"},
    {"torch._functorch.eager_transforms.grad_impl", "func_grad"},
    {"torch._functorch.eager_transforms.grad_and_value_impl", "func_grad_and_value"},
    {"torch._functorch.eager_transforms.vjp", "func_vjp"},
    {"torch._functorch.eager_transforms.jvp", "func_jvp"},
    {"torch._functorch.eager_transforms.linearize", "func_linearize"},
    {"torch._functorch.eager_transforms.jacrev", "func_jacrev"},
    {"torch._functorch.eager_transforms.jacfwd", "func_jacfwd"},
    {"torch._functorch.eager_transforms.hessian", "func_hessian"},
    {"torch.functional.einsum", "einsum"},
    {"torch.nn.modules.rnn.RNNBase._weights_have_changed", "weights_have_changed"},
    {"torch.nn.modules.rnn.RNNBase.check_hidden_size", "check_hidden_size"},
    {"torch.cond", "conditional"},
    {"torch._higher_order_ops.scan", "scan"},
    {"torch._higher_order_ops.map", "map_steps"},
    {"torch._higher_order_ops.associative_scan", "associative_scan"},
    {"torch._higher_order_ops.while_loop", "while_loop"},
    {"torch._pack_padded_sequence", "pack_padded_sequence"},
    {"torch._pad_packed_sequence", "pad_packed_sequence"},
    {"torch.lstm", "lstm"},
    {"torch.gru", "gru"},
    {"torch.rnn_tanh", "rnn_tanh"},
    {"torch.rnn_relu", "rnn_relu"},
    {"torch.lstm_cell", "lstm_cell"},
    {"torch.gru_cell", "gru_cell"},
    {"torch.rnn_tanh_cell", "rnn_tanh_cell"},
    {"torch.rnn_relu_cell", "rnn_relu_cell"},
    {"torch._assert_async", "assert_async"},
    {"torch.Tensor.new", "new_like"},
    {"torch.Tensor.as_subclass", "as_plain_tensor"},
    {"torch.distributions.constraints._PositiveDefinite.check", "is_positive_definite"},
    {"torch.trace", "trace"},
    {"torch.Tensor.trace", "trace"},
    {"torch.functional.broadcast_tensors", "broadcast_tensors"},
    {"torch.functional.meshgrid", "meshgrid"},
    {"torch._weight_norm", "weight_norm"},
    {"torch.pixel_shuffle", "pixel_shuffle"},
    {"torch.nonzero", "nonzero"},
    {"torch.Tensor.nonzero", "nonzero"},
    {"torch.argwhere", "argwhere"},
    {"torch.Tensor.argwhere", "argwhere"},
    {"torch.masked_select", "masked_select"},
    {"torch.Tensor.masked_select", "masked_select"},
    {"torch.functional.unique", "unique"},
    {"torch.unique", "unique"},
    {"torch.Tensor.unique", "unique"},
    {"torch.unique_consecutive", "unique_consecutive"},
    {"torch.functional.unique_consecutive", "unique_consecutive"},
    {"torch.Tensor.unique_consecutive", "unique_consecutive"},
    {"torch.equal", "equal"},
    {"torch.Tensor.equal", "equal"},
    {"torch.isin", "isin"},
    {"torch._is_all_true", "is_all_true"},
    {"torch._is_any_true", "is_any_true"},
    {"torch.allclose", "allclose"},
    {"torch.Tensor.allclose", "allclose"},
    {"torch._standard_gamma", "standard_gamma"},
    {"torch.binomial", "binomial"},
    {"torch.distributions.gamma.Gamma.rsample", "gamma_rsample"},
    {"torch.distributions.dirichlet.Dirichlet.rsample", "dirichlet_rsample"},
    {"torch.multinomial", "multinomial"},
    {"torch.Tensor.multinomial", "multinomial"},
    {"torch.bincount", "bincount"},
    {"torch.Tensor.bincount", "bincount"},
    {"torch._check_is_size", "check_is_size"},
    {"torch.pixel_unshuffle", "pixel_unshuffle"},
    {"torch.cosine_embedding_loss", "cosine_embedding_loss"},
    {"torch.margin_ranking_loss", "margin_ranking_loss"},
    {"torch._check_with", "check_with"},
    {"torch.masked._ops._combine_input_and_mask", "combine_input_and_mask"},
    {"torch._C._nn.upsample_nearest1d", "upsample_nearest"},
    {"torch._C._nn.upsample_nearest2d", "upsample_nearest"},
    {"torch._C._nn.upsample_nearest3d", "upsample_nearest"},
};

}  // namespace

std::span<const PolyfillRow> torch_polyfills() { return kPolyfillRows; }

bool calls_no_operators(std::string_view polyfill) {
  return polyfill == "weights_have_changed" || polyfill == "no_range" || polyfill == "check_hidden_size";
}

}  // namespace cdynamo::symbolic
