#include "graph/autograd/derivative.h"

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

Tensor permute_folded(Tensor x, Dims dims) {
  const Node* node = x.value->node;
  if (!node || node->op->name != "core.permute") return permute(x, std::move(dims));
  const Dims first = Args(node->op->parsed.at(node->overload), node->args).constants("dims");
  for (int64_t& dim : dims) dim = first[dim];
  return permute(wrap(*x.builder, std::get<Value*>(node->args[0])), std::move(dims));
}

}  // namespace cdynamo::graph
