// ATen's policies for the CPU (the kernels of the dispatch key AutocastCPU), by the names of the operator table.
// Composite operators that have no kernel of their own have the policy of what they call. An operator that is
// not here runs on the dtypes that it gets.
#include "symbolic/torch/autocast_policy.h"

#include "graph/op.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using graph::DType;
using graph::Value;

enum class Policy : uint8_t {
  kNone,
  kLower,    // in autocast's dtype
  kFloat32,  // in float32
  kPromote,  // float32 where any operand is, else autocast's dtype
};

struct PolicyRow {
  std::string_view op;
  Policy policy;
};

constexpr PolicyRow kRows[] = {
    {"addbmm", Policy::kLower},
    {"addmm", Policy::kLower},
    {"baddbmm", Policy::kLower},
    {"bmm", Policy::kLower},
    {"conv1d", Policy::kLower},
    {"conv2d", Policy::kLower},
    {"conv3d", Policy::kLower},
    {"conv_transpose1d", Policy::kLower},
    {"conv_transpose2d", Policy::kLower},
    {"conv_transpose3d", Policy::kLower},
    {"inner", Policy::kLower},
    {"linalg_vecdot", Policy::kLower},
    {"linear", Policy::kLower},
    {"matmul", Policy::kLower},
    {"mm", Policy::kLower},
    {"prelu", Policy::kLower},
    {"scaled_dot_product_attention", Policy::kLower},
    {"adaptive_avg_pool3d", Policy::kFloat32},
    {"avg_pool3d", Policy::kFloat32},
    {"binary_cross_entropy", Policy::kFloat32},
    {"binary_cross_entropy_with_logits", Policy::kFloat32},
    {"cdist", Policy::kFloat32},
    {"cross_entropy_loss", Policy::kFloat32},
    {"hinge_embedding_loss", Policy::kFloat32},
    {"huber_loss", Policy::kFloat32},
    {"kl_div", Policy::kFloat32},
    {"l1_loss", Policy::kFloat32},
    {"max_pool3d", Policy::kFloat32},
    {"mse_loss", Policy::kFloat32},
    {"nll_loss", Policy::kFloat32},
    {"nll_loss_nd", Policy::kFloat32},
    {"poisson_nll_loss", Policy::kFloat32},
    {"prod", Policy::kFloat32},
    {"smooth_l1_loss", Policy::kFloat32},
    {"soft_margin_loss", Policy::kFloat32},
    {"trace", Policy::kFloat32},
    {"cat", Policy::kPromote},
    {"column_stack", Policy::kPromote},
    {"dstack", Policy::kPromote},
    {"hstack", Policy::kPromote},
    {"index_copy", Policy::kPromote},
    {"stack", Policy::kPromote},
    {"vstack", Policy::kPromote},
};

// Their bodies call operators as the program could, or none that has a policy.
constexpr std::string_view kPolyfills[] = {"broadcast_tensors",
                                           "einsum",
                                           "func_grad",
                                           "func_grad_and_value",
                                           "func_vjp",
                                           "group_by_device_and_dtype",
                                           "gru",
                                           "gru_cell",
                                           "lstm_cell",
                                           "meshgrid",
                                           "native_multi_head_attention",
                                           "no_range",
                                           "number_of",
                                           "pixel_shuffle",
                                           "pixel_unshuffle",
                                           "rnn_relu",
                                           "rnn_relu_cell",
                                           "rnn_tanh",
                                           "rnn_tanh_cell",
                                           "stacked",
                                           "upsample_nearest",
                                           "weights_have_changed"};

Policy find_policy(std::string_view op) {
  for (const PolicyRow& row : kRows)
    if (row.op == op) return row.policy;
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
bool eligible(const Value* value) {
  return value->type.device.type == runtime::DeviceType::kCPU && runtime::is_float(value->type.dtype) &&
         value->type.dtype != DType::kF64;
}

DType promoted(BoundCall& call, const graph::OpDef& op, DType lower) {
  DType dtype = lower;
  for_each_operand(call, [&](Value* value) {
    if (!eligible(value) || value->type.dtype == lower || dtype == DType::kF32) return;
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

}  // namespace

void cast_for_autocast(Executor& ex, const graph::OpDef& op, BoundCall& call) {
  const AutocastState& autocast = tensor_capture(ex).autocast;
  if (!autocast.enabled) return;
  Policy policy = find_policy(op.name);
  if (op.name == "pad") policy = policy_of_pad(call, op.parsed[call.overload]);
  // A product with a number in a tensor is a multiplication.
  if (op.name == "inner" && any_operand(call, [](const Value* value) { return value->type.rank() == 0; }))
    policy = Policy::kNone;
  if (policy == Policy::kNone) return;
  const DType dtype = policy == Policy::kLower     ? autocast.dtype
                      : policy == Policy::kFloat32 ? DType::kF32
                                                   : promoted(call, op, autocast.dtype);
  for_each_operand(call, [&](Value*& value) {
    if (eligible(value) && value->type.dtype != dtype) value = append_call1(ex, "core.cast", {value, dtype});
  });
}

void check_autocast_of_polyfill(Executor& ex, std::string_view function) {
  if (!tensor_capture(ex).autocast.enabled) return;
  for (std::string_view name : kPolyfills)
    if (name == function) return;
  break_graph("CD0404", std::string(function) + " under autocast");
}

}  // namespace cdynamo::symbolic
