#include "graph/passes/constant_folding.h"

#include <optional>

#include "graph/reference.h"

namespace cdynamo::graph {
namespace {

// The number that a core.full holds, as the scalar code reads it.
std::optional<Scalar> scalar_of(ReferenceBuilder& b, const Value* value) {
  static const OpDef* const full = &op("core.full");
  if (!value->node || value->node->op != full) return std::nullopt;
  const Arg& number = Args(full->parsed[value->node->overload], value->node->args)["value"];
  const DType dtype = value->type.dtype;
  const auto* integer = std::get_if<Sym>(&number);
  if (integer && !integer->is_constant()) return std::nullopt;
  if (integer && !runtime::is_float(dtype)) return b.constant_int(wrap_to(integer->constant(), dtype), dtype);
  double real = 0;
  if (integer)
    real = static_cast<double>(integer->constant());
  else if (const auto* flag = std::get_if<bool>(&number))
    real = *flag;
  else
    real = std::get<double>(number);
  if (runtime::is_float(dtype)) return b.constant(round_to(real, dtype), runtime::compute_type(dtype));
  return b.constant_int(real_to_integer(real, dtype), dtype);
}

}  // namespace

Value* fold_constants(Builder& builder, Node& node) {
  if (node.op->family != Family::kPointwise || !node.op->scalar || node.results.size() != 1) return nullptr;
  ReferenceBuilder reference;
  std::vector<Scalar> operands;
  bool constant = true;
  for_each_operand(node, [&](Value* operand) {
    const std::optional<Scalar> scalar = constant ? scalar_of(reference, operand) : std::nullopt;
    constant &= scalar.has_value();
    if (scalar) operands.push_back(*scalar);
  });
  if (!constant || operands.empty()) return nullptr;
  const TensorType& type = node.results[0]->type;
  const Args args(node.op->parsed[node.overload], node.args);
  Scalar result = node.op->scalar(reference, operands.data(), args);
  result = reference.cast(result, runtime::compute_type(type.dtype));
  Arg number;
  if (runtime::is_float(type.dtype))
    number = round_to(ReferenceBuilder::real(result), type.dtype);
  else if (type.dtype == DType::kBool)
    number = ReferenceBuilder::integer(result) != 0;
  else
    number = Sym(ReferenceBuilder::integer(result));
  // A full holds no number that int64 does not.
  if (type.dtype == DType::kU64 && ReferenceBuilder::integer(result) < 0) return nullptr;
  return builder.call1("core.full", {type.sizes, std::move(number), type.dtype});
}

}  // namespace cdynamo::graph
