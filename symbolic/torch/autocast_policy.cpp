// ATen's policies (the kernels of the dispatch keys AutocastCPU and AutocastCUDA), by the names of the operator table.
// Composite operators that have no kernel of their own have the policy of what they call. An operator that is
// not here runs on the dtypes that it gets.
#include "symbolic/torch/autocast_policy.h"

#include <algorithm>

#include "graph/op.h"
#include "symbolic/interop/loaded_object.h"
#include "symbolic/torch/callables.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using graph::DType;
using graph::Value;
using runtime::DeviceType;

enum class Policy : uint8_t {
  kNone,
  kLower,          // in autocast's dtype
  kFloat32,        // in float32
  kFloat32Result,  // the same, but for calls with dtype=
  kPromote,        // float32 where any operand is, else autocast's dtype
  kRefused,        // eager raises an error
};

struct PolicyRow {
  std::string_view op;
  Policy cpu, cuda;
};

constexpr PolicyRow kAutocastPolicyRows[] = {
    {"acos", Policy::kNone, Policy::kFloat32},
    {"adaptive_avg_pool3d", Policy::kFloat32, Policy::kNone},
    {"addbmm", Policy::kLower, Policy::kLower},
    {"addcdiv", Policy::kNone, Policy::kPromote},
    {"addcmul", Policy::kNone, Policy::kPromote},
    {"addmm", Policy::kLower, Policy::kLower},
    {"addmv", Policy::kNone, Policy::kLower},
    {"addr", Policy::kNone, Policy::kLower},
    {"asin", Policy::kNone, Policy::kFloat32},
    {"atan2", Policy::kNone, Policy::kPromote},
    {"avg_pool3d", Policy::kFloat32, Policy::kNone},
    {"baddbmm", Policy::kLower, Policy::kLower},
    {"binary_cross_entropy", Policy::kFloat32, Policy::kRefused},
    {"binary_cross_entropy_with_logits", Policy::kFloat32, Policy::kFloat32},
    {"bmm", Policy::kLower, Policy::kLower},
    {"cat", Policy::kPromote, Policy::kNone},
    {"cdist", Policy::kFloat32, Policy::kFloat32},
    {"column_stack", Policy::kPromote, Policy::kNone},
    {"conv1d", Policy::kLower, Policy::kLower},
    {"conv2d", Policy::kLower, Policy::kLower},
    {"conv3d", Policy::kLower, Policy::kLower},
    {"conv_transpose1d", Policy::kLower, Policy::kLower},
    {"conv_transpose2d", Policy::kLower, Policy::kLower},
    {"conv_transpose3d", Policy::kLower, Policy::kLower},
    {"convolution", Policy::kNone, Policy::kLower},
    {"cosh", Policy::kNone, Policy::kFloat32},
    {"cosine_similarity", Policy::kNone, Policy::kFloat32},
    {"cross", Policy::kNone, Policy::kPromote},
    {"cross_entropy_loss", Policy::kFloat32, Policy::kFloat32},
    {"cumprod", Policy::kNone, Policy::kFloat32Result},
    {"cumsum", Policy::kNone, Policy::kFloat32Result},
    {"dist", Policy::kNone, Policy::kFloat32},
    {"dot", Policy::kNone, Policy::kPromote},
    {"dstack", Policy::kPromote, Policy::kNone},
    {"exp", Policy::kNone, Policy::kFloat32},
    {"expm1", Policy::kNone, Policy::kFloat32},
    {"group_norm", Policy::kNone, Policy::kFloat32},
    {"hinge_embedding_loss", Policy::kFloat32, Policy::kFloat32},
    {"hstack", Policy::kPromote, Policy::kNone},
    {"huber_loss", Policy::kFloat32, Policy::kFloat32},
    {"index_copy", Policy::kPromote, Policy::kNone},
    {"index_put", Policy::kNone, Policy::kPromote},
    {"inner", Policy::kLower, Policy::kPromote},
    {"kl_div", Policy::kFloat32, Policy::kFloat32},
    {"l1_loss", Policy::kFloat32, Policy::kFloat32},
    {"layer_norm", Policy::kNone, Policy::kFloat32},
    {"linalg_matrix_norm", Policy::kNone, Policy::kFloat32},
    {"linalg_norm", Policy::kNone, Policy::kFloat32},
    {"linalg_vecdot", Policy::kLower, Policy::kLower},
    {"linalg_vector_norm", Policy::kNone, Policy::kFloat32},
    {"linear", Policy::kLower, Policy::kLower},
    {"log", Policy::kNone, Policy::kFloat32},
    {"log10", Policy::kNone, Policy::kFloat32},
    {"log1p", Policy::kNone, Policy::kFloat32},
    {"log2", Policy::kNone, Policy::kFloat32},
    {"log_softmax", Policy::kNone, Policy::kFloat32Result},
    {"logsumexp", Policy::kNone, Policy::kFloat32},
    {"matmul", Policy::kLower, Policy::kLower},
    {"max_pool3d", Policy::kFloat32, Policy::kNone},
    {"mm", Policy::kLower, Policy::kLower},
    {"mse_loss", Policy::kFloat32, Policy::kFloat32},
    {"multi_margin_loss", Policy::kFloat32, Policy::kFloat32},
    {"mv", Policy::kNone, Policy::kLower},
    {"native_layer_norm", Policy::kNone, Policy::kFloat32},
    {"nll_loss", Policy::kFloat32, Policy::kFloat32},
    {"nll_loss_nd", Policy::kFloat32, Policy::kFloat32},
    {"norm", Policy::kNone, Policy::kFloat32},
    {"pairwise_distance", Policy::kNone, Policy::kFloat32},
    {"poisson_nll_loss", Policy::kFloat32, Policy::kFloat32},
    {"pow", Policy::kNone, Policy::kFloat32},
    {"prelu", Policy::kLower, Policy::kLower},
    {"prod", Policy::kFloat32, Policy::kFloat32Result},
    {"reciprocal", Policy::kNone, Policy::kFloat32},
    {"rms_norm", Policy::kNone, Policy::kFloat32},
    {"rsqrt", Policy::kNone, Policy::kFloat32},
    {"scaled_dot_product_attention", Policy::kLower, Policy::kLower},
    {"scatter_add", Policy::kNone, Policy::kPromote},
    {"sinh", Policy::kNone, Policy::kFloat32},
    {"smooth_l1_loss", Policy::kFloat32, Policy::kFloat32},
    {"soft_margin_loss", Policy::kFloat32, Policy::kFloat32},
    {"softmax", Policy::kNone, Policy::kFloat32Result},
    {"softplus", Policy::kNone, Policy::kFloat32},
    {"square", Policy::kNone, Policy::kFloat32},
    {"stack", Policy::kPromote, Policy::kNone},
    {"sum", Policy::kNone, Policy::kFloat32Result},
    {"tan", Policy::kNone, Policy::kFloat32},
    {"trace", Policy::kFloat32, Policy::kNone},
    {"upsample_bilinear2d", Policy::kNone, Policy::kFloat32},
    {"upsample_linear1d", Policy::kNone, Policy::kFloat32},
    {"upsample_nearest1d", Policy::kNone, Policy::kFloat32},
    {"upsample_nearest2d", Policy::kNone, Policy::kFloat32},
    {"upsample_nearest3d", Policy::kNone, Policy::kFloat32},
    {"upsample_trilinear3d", Policy::kNone, Policy::kFloat32},
    {"vdot", Policy::kNone, Policy::kPromote},
    {"vstack", Policy::kPromote, Policy::kNone},
};

// Their bodies call operators as the program could, or none that has a policy.
constexpr std::string_view kPolyfills[] = {"broadcast_tensors",
                                           "einsum",
                                           "func_grad",
                                           "func_grad_and_value",
                                           "func_hessian",
                                           "func_jacfwd",
                                           "func_jacrev",
                                           "func_jvp",
                                           "func_linearize",
                                           "func_vjp",
                                           "group_by_device_and_dtype",
                                           "gru",
                                           "gru_cell",
                                           "lstm_cell",
                                           "meshgrid",
                                           "native_multi_head_attention",
                                           "number_of",
                                           "pixel_shuffle",
                                           "pixel_unshuffle",
                                           "rnn_relu",
                                           "rnn_relu_cell",
                                           "rnn_tanh",
                                           "rnn_tanh_cell",
                                           "stacked",
                                           "upsample_nearest"};

// Of those, what is the same for CUDA: the others have a policy of their own there.
constexpr std::string_view kCudaPolyfills[] = {
    "broadcast_tensors", "func_grad",      "func_grad_and_value",
    "func_hessian",      "func_jacfwd",    "func_jacrev",
    "func_jvp",          "func_vjp",       "group_by_device_and_dtype",
    "meshgrid",          "number_of",      "stacked",
    "pixel_shuffle",     "pixel_unshuffle"};

// Some releases of PyTorch have a policy for it.
bool has_cuda_policy(const char* op) {
  PyObject* ask = library_object("torch._C", "_dispatch_has_kernel_for_dispatch_key");
  PyRef found = checked(PyObject_CallFunction(ask, "ss", op, "AutocastCUDA"));
  return found.get() == Py_True;
}

Policy find_policy(std::string_view op, DeviceType device) {
  if (op == "rms_norm" && !has_cuda_policy("aten::rms_norm")) return Policy::kNone;
  for (const PolicyRow& row : kAutocastPolicyRows)
    if (row.op == op) return device == DeviceType::kCPU ? row.cpu : row.cuda;
  return Policy::kNone;
}

template <typename F>
void for_each_operand(BoundCall& call, F&& fn) {
  for (graph::Arg& arg : call.args) {
    if (auto* value = std::get_if<Value*>(&arg)) {
      if (*value) fn(*value);
    } else if (auto* list = std::get_if<std::vector<Value*>>(&arg)) {
      for (Value*& item : *list)
        if (item) fn(item);
    }
  }
}

// float64 is left alone.
bool eligible(const Value* value, DeviceType device) {
  return value->type.device.type == device && runtime::is_float(value->type.dtype) &&
         value->type.dtype != DType::kF64;
}

DType promoted(BoundCall& call, const graph::OpDef& op, DeviceType device, DType lower) {
  DType dtype = lower;
  for_each_operand(call, [&](Value* value) {
    if (!eligible(value, device) || value->type.dtype == lower || dtype == DType::kF32) return;
    if (value->type.dtype != DType::kF32)  // eager raises
      break_graph("CD0404", std::string(op.name) + " of this dtype under autocast");
    dtype = DType::kF32;
  });
  return dtype;
}

// pad calls an operator with a policy in some modes only.
Policy policy_of_pad(const BoundCall& call, const graph::Schema& schema) {
  const graph::Args args(schema, call.args);
  const auto* mode = std::get_if<std::string>(&args["mode"]);
  const auto* pad = std::get_if<std::vector<graph::Sym>>(&args["pad"]);
  if (!mode || !pad) return Policy::kNone;
  const size_t dims = pad->size() / 2;
  return *mode == "replicate" || (*mode == "reflect" && dims < 3) ? Policy::kFloat32 : Policy::kNone;
}

bool any_operand(BoundCall& call, bool (*holds)(const Value*)) {
  bool any = false;
  for_each_operand(call, [&](Value* value) { any |= holds(value); });
  return any;
}

bool has_dtype(const graph::OpDef& op, const BoundCall& call) {
  return graph::Args(op.parsed[call.overload], call.args).has("dtype");
}

// As the kernel of the device's autocast key does: it is called where any operand is on the device.
void cast_operands(Executor& ex, const graph::OpDef& op, BoundCall& call, DeviceType device, DType lower) {
  Policy policy = find_policy(op.name, device);
  const bool cpu = device == DeviceType::kCPU;
  if (op.name == "pad" && cpu) policy = policy_of_pad(call, op.parsed[call.overload]);
  // A product with a number in a tensor is a multiplication.
  if (op.name == "inner" && any_operand(call, [](const Value* value) { return value->type.rank() == 0; }))
    policy = Policy::kNone;
  if (policy == Policy::kFloat32Result && has_dtype(op, call)) policy = Policy::kNone;
  if (policy == Policy::kNone) return;
  if (policy == Policy::kRefused) break_graph("CD0404", std::string(op.name) + " under autocast");
  const DType dtype = policy == Policy::kLower     ? lower
                      : policy == Policy::kPromote ? promoted(call, op, device, lower)
                                                   : DType::kF32;
  for_each_operand(call, [&](Value*& value) {
    if (eligible(value, device) && value->type.dtype != dtype)
      value = append_call1(ex, "core.cast", {value, dtype});
  });
}

}  // namespace

void cast_for_autocast(Executor& ex, const graph::OpDef& op, BoundCall& call) {
  const AutocastState& autocast = tensor_capture(ex).autocast;
  for (DeviceType device : {DeviceType::kCUDA, DeviceType::kCPU}) {
    const auto& [enabled, dtype] = autocast.devices[static_cast<size_t>(device)];
    bool any = false;
    if (enabled)
      for_each_operand(call, [&](const Value* value) { any |= value->type.device.type == device; });
    if (any) return cast_operands(ex, op, call, device, dtype);
  }
}

void check_autocast_of_polyfill(Executor& ex, std::string_view function) {
  const AutocastState& autocast = tensor_capture(ex).autocast;
  if (!autocast.enabled() || calls_no_operators(function)) return;
  const bool cuda = autocast.devices[1].enabled;
  if (cuda ? std::ranges::find(kCudaPolyfills, function) != std::end(kCudaPolyfills)
           : std::ranges::find(kPolyfills, function) != std::end(kPolyfills))
    return;
  break_graph("CD0404", std::string(function) + " under autocast");
}

}  // namespace cdynamo::symbolic
