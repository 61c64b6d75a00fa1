#include "lowering/loops/lowering_context.h"

namespace cdynamo::lowering {
namespace {

using graph::Prim;
using graph::Scalar;

// A ScalarBuilder that adds up what the code would cost.
class CostCounter : public graph::ScalarBuilder {
 public:
  int cost = 0;
  Scalar constant(double, DType dtype) override { return {nullptr, dtype}; }
  Scalar constant_int(int64_t, DType dtype) override { return {nullptr, dtype}; }
  Scalar cast(Scalar, DType dtype) override { return charge(1, dtype); }
  Scalar select(Scalar, Scalar yes, Scalar) override { return charge(1, yes.dtype); }
  Scalar bitcast(Scalar, DType dtype) override { return {nullptr, dtype}; }
  Scalar prim(Prim prim, const Scalar* operands, int) override {
    const bool compares = prim >= Prim::k_eq && prim <= Prim::k_ge;
    return charge(price(prim), compares ? DType::kBool : operands[0].dtype);
  }

 private:
  static int price(Prim prim) {
    if (prim == Prim::k_div || prim == Prim::k_rem || prim == Prim::k_sqrt) return 4;
    if (prim < Prim::k_sqrt || (prim >= Prim::k_floor && prim <= Prim::k_copysign)) return 1;
    return prim >= Prim::k_pow ? 30 : 12;
  }
  Scalar charge(int amount, DType dtype) {
    cost += amount;
    return {nullptr, dtype};
  }
};

}  // namespace

int scalar_cost(const Node& node) {
  if (!node.op->scalar) return 1;
  CostCounter counter;
  std::vector<Scalar> operands;
  graph::for_each_operand(const_cast<Node&>(node), [&](Value*& value) {
    operands.push_back({nullptr, runtime::compute_type(value->type.dtype)});
  });
  node.op->scalar(counter, operands.data(), args_of(node));
  return counter.cost;
}

LoweringContext::LoweringContext(const graph::Graph& core, const Target& target)
    : graph(core), target(target), sym(*core.sym) {
  int max_id = -1;
  for (const auto& node : core.nodes) max_id = std::max(max_id, node->id);
  position.assign(max_id + 1, -1);
  kinds.assign(max_id + 1, CoreKind::kNone);
  costs.assign(max_id + 1, 0);
  repeated.assign(max_id + 1, 0);
  users.resize(core.next_value_id());
  is_output.assign(core.next_value_id(), 0);
  layouts.resize(core.next_value_id());
  for (const auto& node : core.nodes) {
    position[node->id] = static_cast<int>(order.size());
    order.push_back(node.get());
    kinds[node->id] = node->op->core.kind;
    if (kinds[node->id] <= CoreKind::kRegroup)
      throw graph::Unsupported("lowering knows no operator " + std::string(node->op->name));
    costs[node->id] = is_view(kinds[node->id]) ? 0 : scalar_cost(*node);
    graph::for_each_operand(*node, [&](Value*& value) { users[value->id].push_back(node.get()); });
  }
  for (const Value* value : core.outputs) is_output[value->id] = 1;
  for (const auto& mutation : core.mutations) is_output[mutation.value->id] = 1;
}

int64_t LoweringContext::numel_hint(const Value& value) const {
  int64_t numel = 1;
  for (const Sym& size : value.type.sizes) numel *= hint(size);
  return numel;
}

bool LoweringContext::is_empty(const Value& value) const {
  for (const Sym& size : value.type.sizes)
    if (size == Sym()) return true;
  return false;
}

}  // namespace cdynamo::lowering
