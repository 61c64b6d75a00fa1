#include "graph/autograd/gradient_strides.h"

#include <algorithm>

#include "graph/op.h"
#include "graph/passes/view_step.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

bool follows_operands(const Node& node) {
  const bool is_row_major = node.op->name == "core.own" || node.op->name == "core.follow";
  return node.results.size() == 1 && !is_row_major &&
         (node.op->family == Family::kPointwise || node.op->core.kind == CoreKind::kTransfer ||
          is_aliasing_view(*node.op));
}

bool is_number(const Value* value) { return value->node && value->node->op->core.kind == CoreKind::kFull; }

}  // namespace

GradientStrides::GradientStrides(const Graph& joint, const std::vector<Value*>& gradients)
    : context_(*joint.sym), strides_(joint.next_value_id()) {
  std::vector<bool> wanted(strides_.size());
  for (const Value* gradient : gradients)
    if (gradient) wanted[gradient->id] = true;
  std::vector<const Node*> nodes;
  for (auto it = joint.nodes.rbegin(); it != joint.nodes.rend(); ++it) {
    Node& node = **it;
    if (!follows_operands(node) || !wanted[node.results[0]->id]) continue;
    nodes.push_back(&node);
    for_each_operand(node, [&](Value*& operand) { wanted[operand->id] = true; });
  }
  for (const Value* input : joint.inputs)
    if (wanted[input->id]) strides_[input->id] = input->type.strides;
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) infer(**it);
}

std::vector<Sym> GradientStrides::of(const Value* value) const {
  if (value->node && value->node->op->family == Family::kLibrary) return value->type.strides;
  const std::vector<Sym>& known = strides_[value->id];
  return known.empty() ? contiguous_strides(value->type.sizes) : known;
}

void GradientStrides::infer(const Node& node) {
  const Value* result = node.results[0];
  const std::vector<Sym>& sizes = result->type.sizes;
  if (is_aliasing_view(*node.op)) {
    const ViewStep step = make_view_step(node);
    StorageLayout layout{step.operand_sizes, of(std::get<Value*>(node.args[0])), 0};
    // A view of values that are nowhere in memory yet, or that runs backwards, is a copy.
    if (!advance(context_, step, layout)) return;
    const auto runs_forward = [&](const Sym& stride) {
      return context_.known(Relation::kLe, 0, stride).value_or(false);
    };
    if (std::ranges::all_of(layout.strides, runs_forward)) strides_[result->id] = layout.strides;
    return;
  }
  std::vector<TensorType> types;
  for_each_operand(const_cast<Node&>(node), [&](Value*& operand) {
    if (is_number(operand)) return;
    types.push_back(TensorType{.sizes = operand->type.sizes, .strides = of(operand)});
  });
  std::vector<const TensorType*> operands;
  for (const TensorType& type : types) operands.push_back(&type);
  strides_[result->id] = elementwise_strides(context_, sizes, operands);
}

}  // namespace cdynamo::graph
