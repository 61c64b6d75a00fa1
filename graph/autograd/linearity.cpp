#include "graph/autograd/linearity.h"

#include <algorithm>
#include <optional>

#include "graph/op.h"
#include "graph/passes.h"
#include "graph/passes/rewrite.h"

namespace cdynamo::graph {
namespace {

enum class Role : uint8_t {
  kLinear,     // depends on the inputs, or is zero
  kFactor,     // depends on the inputs alone among the operands, or does not
  kParameter,  // does not depend on the inputs
};

// Nothing where an operator is not known to be linear in any operand.
std::optional<Role> role_of_operand(Linearity linearity, size_t index) {
  switch (linearity) {
    case Linearity::kAll: return Role::kLinear;
    case Linearity::kProduct: return Role::kFactor;
    case Linearity::kFirst: return index == 0 ? Role::kLinear : Role::kParameter;
    case Linearity::kRest: return index == 0 ? Role::kParameter : Role::kLinear;
    default: return std::nullopt;
  }
}

class Analysis {
 public:
  explicit Analysis(const Graph& core) : depends_(core.next_value_id()) {}

  void begin(const Value* input) { depends_[input->id] = true; }

  bool visit(Node& node) {
    std::vector<const Value*> operands;
    for_each_operand(node, [&](Value*& operand) { operands.push_back(operand); });
    const auto dependent = std::ranges::count_if(operands, [&](const Value* v) { return depends_[v->id]; });
    if (dependent == 0) return true;
    for (const Value* result : node.results) {
      if (!runtime::is_float(result->type.dtype)) return false;
      depends_[result->id] = true;
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::optional<Role> role = role_of_operand(node.op->core.linearity, i);
      const bool depends = depends_[operands[i]->id];
      if (!role || (*role == Role::kParameter && depends) || (*role == Role::kFactor && dependent > 1) ||
          (*role == Role::kLinear && !depends && !is_zero(operands[i])))
        return false;
    }
    return true;
  }

  bool is_linear(const Value* result) const { return depends_[result->id] || is_zero(result); }

 private:
  // Zero through operators that are linear in one operand.
  static bool is_zero(const Value* value) {
    while (value->node && value->node->results.size() == 1 &&
           value->node->op->core.linearity == Linearity::kAll) {
      std::vector<const Value*> operands;
      for_each_operand(*value->node, [&](Value*& operand) { operands.push_back(operand); });
      if (operands.size() != 1) break;
      value = operands[0];
    }
    return constant_of(value) == 0.0;
  }

  std::vector<bool> depends_;  // by value id
};

}  // namespace

bool is_linear(const Graph& captured, size_t count) {
  const Prepared prepared = prepare(captured, {}, /*for_training=*/true);
  Graph& core = *prepared.core;
  if (!core.mutations.empty()) return false;
  Analysis analysis(core);
  for (size_t i = 0; i < count; ++i) analysis.begin(core.inputs.at(i));
  for (const auto& node : core.nodes)
    if (!analysis.visit(*node)) return false;
  for (const OutputAlias& output : prepared.outputs) {
    const bool fresh = output.kind == OutputAlias::kFresh || output.kind == OutputAlias::kViewOfOutput;
    if (!analysis.is_linear(fresh ? core.outputs.at(output.index) : core.inputs.at(output.index)))
      return false;
  }
  return true;
}

}  // namespace cdynamo::graph
