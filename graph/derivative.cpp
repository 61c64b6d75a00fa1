#include "graph/derivative.h"

namespace cdynamo::graph {

Derivative::Derivative(Builder& builder, const Node& node, std::vector<Tensor> grads)
    : builder(builder),
      node(node),
      args(node.op->parsed.at(node.overload), node.args),
      grads(std::move(grads)) {
  for_each_operand(const_cast<Node&>(node), [&](Value*& value) { operands.push_back(wrap(builder, value)); });
  for (Value* value : node.results) results.push_back(wrap(builder, value));
  gradients.resize(operands.size());
}

void Derivative::set(int index, Tensor gradient) {
  if (runtime::is_float(operands.at(index).dtype())) gradients[index] = gradient;
}

}  // namespace cdynamo::graph
