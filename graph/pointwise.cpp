#include "graph/pointwise.h"

#include <algorithm>

#include "graph/broadcast.h"
#include "graph/converted_numbers.h"
#include "graph/promotion.h"
#include "graph/strides.h"

namespace cdynamo::graph {

std::vector<Arg> canonical_args(const OpDef& op, int overload, const std::vector<Arg>& args) {
  if (overload == 0) return args;
  const Schema &from = op.parsed[overload], &to = op.parsed[0];
  std::vector<Arg> result;
  for (const Param& param : to.params) {
    int index = from.find(param.name);
    result.push_back(index >= 0 ? args.at(index) : param.default_value);
  }
  return result;
}

static bool absent(const Arg& arg) {
  const auto* value = std::get_if<Value*>(&arg);
  return std::holds_alternative<std::monostate>(arg) || (value && !*value);
}

static void infer_device(const PointwiseCall& call, TensorType& result) {
  bool found = false, found_dims = false;
  for (const Arg& operand : call.operands) {
    const auto* value = std::get_if<Value*>(&operand);
    if (!value) continue;
    const TensorType& type = (*value)->type;
    bool has_dims = type.rank() > 0;
    if (found && type.device == result.device) {
      found_dims |= has_dims;
      continue;
    }
    if (found && has_dims && found_dims)
      runtime_error("Expected all tensors to be on the same device, but found at least two devices");
    // A 0-dim tensor of the CPU may be with tensors of another device.
    if (!found || (has_dims && !found_dims)) result.device = type.device;
    found = true;
    found_dims |= has_dims;
  }
}

// In which dtypes eager's loop takes the operands. Logical functions have a loop for each dtype, where ours takes bools.
static std::vector<DType> loop_dtypes(const Graph& graph, const OpDef& op, const PointwiseCall& call) {
  if (op.promotion != Promotion::kLogical) return call.operand_dtypes;
  std::vector<PromotedOperand> operands;
  for (const Arg& operand : call.operands) operands.push_back(promoted_operand(operand));
  return std::vector<DType>(operands.size(), result_type(graph.framework, graph.default_float(), operands));
}

// The operands' types as the iterator of eager PyTorch has them: on the CPU an operand that is converted is copied before, and an
// expanded one is as large then as it looks. Numbers are left out.
static std::vector<TensorType> iterated_types(const Graph& graph, const PointwiseCall& call,
                                              const std::vector<DType>& dtypes) {
  const bool copies =
      graph.framework == Framework::kTorch && call.result.device.type == runtime::DeviceType::kCPU;
  std::vector<TensorType> types;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const auto* value = std::get_if<Value*>(&call.operands[i]);
    if (!value) continue;
    TensorType& type = types.emplace_back((*value)->type);
    if (copies && type.dtype != dtypes[i]) type.strides = preserved_strides(graph, type);
  }
  return types;
}

static bool casts_array(const PointwiseCall& call, const std::vector<DType>& dtypes) {
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const auto* value = std::get_if<Value*>(&call.operands[i]);
    if (value && (*value)->type.rank() > 0 && (*value)->type.dtype != dtypes[i]) return true;
  }
  return false;
}

PointwiseCall analyze_pointwise(Graph& graph, const OpDef& op, int overload, const std::vector<Arg>& args) {
  PointwiseCall call;
  std::vector<Arg> canonical = canonical_args(op, overload, args);
  const Schema& schema = op.parsed[0];
  std::vector<PromotedOperand> promoted;
  std::vector<const TensorType*> types;
  bool all_weak = true, first = true;
  for (size_t i = 0; i < schema.params.size(); ++i) {
    if (schema.params[i].kind != ParamKind::kTensor || absent(canonical[i])) continue;
    call.operands.push_back(canonical[i]);
    call.params.push_back(static_cast<int>(i));
    promoted.push_back(promoted_operand(canonical[i]));
    const auto* value = std::get_if<Value*>(&canonical[i]);
    if (!value) continue;
    const TensorType& type = (*value)->type;
    types.push_back(&type);
    all_weak &= type.weak;
    call.result.sizes = first ? type.sizes : broadcast_sizes(graph, call.result.sizes, type.sizes);
    first = false;
  }
  if (types.empty()) type_error(std::string(op.name) + "(): no operand is a tensor");
  Promoted dtypes = promote(graph.framework, graph.default_float(), op.promotion, promoted, op.name);
  call.operand_dtypes = std::move(dtypes.operands);
  if (graph.framework == Framework::kNumpy)
    check_numpy_integers(graph, op.promotion, call.operands, call.operand_dtypes);
  call.result.dtype = dtypes.result;
  call.result.weak = all_weak;
  infer_device(call, call.result);
  const std::vector<DType> in_loop = loop_dtypes(graph, op, call);
  const std::vector<TensorType> iterated = iterated_types(graph, call, in_loop);
  std::ranges::transform(iterated, types.begin(), [](const TensorType& type) { return &type; });
  // A number is a 0-dim operand to the iterator, which then looks at the order of dims.
  static const TensorType kNumber;
  if (types.size() < call.operands.size()) types.push_back(&kNumber);
  call.result.strides =
      graph.framework == Framework::kNumpy
          ? numpy_ufunc_strides(*graph.sym, call.result.sizes, types, casts_array(call, in_loop))
          : elementwise_strides(*graph.sym, call.result.sizes, types);
  if (op.check) op.check(graph, Args(op.parsed[0], canonical));
  return call;
}

}  // namespace cdynamo::graph
