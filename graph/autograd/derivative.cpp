#include "graph/autograd/derivative.h"

#include "graph/op.h"
#include "graph/passes/rewrite.h"

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

namespace {

// The operator that gives the index; null where `extreme` is neither of the two, or of several dims.
const OpDef* index_op(const Node& extreme) {
  static const OpDef *const max = &op("core.max"), *const min = &op("core.min");
  if (extreme.op != max && extreme.op != min) return nullptr;
  if (Args(extreme.op->parsed[0], extreme.args).constants("dims").size() != 1) return nullptr;
  return &op(extreme.op == max ? "core.argmax" : "core.argmin");
}

}  // namespace

Value* index_of_extreme(const Graph& graph, const Node& extreme) {
  const OpDef* wanted = index_op(extreme);
  if (!wanted) return nullptr;
  const Args args(extreme.op->parsed[0], extreme.args);
  for (const auto& node : graph.nodes) {
    if (node->op != wanted || std::get<Value*>(node->args.at(0)) != std::get<Value*>(extreme.args.at(0)))
      continue;
    if (Args(wanted->parsed[0], node->args).constants("dims") == args.constants("dims"))
      return node->results.at(0);
  }
  return nullptr;
}

void add_indices_of_extremes(Graph& function) {
  rewrite_nodes(function, [&](Builder& builder, Node& node) -> Value* {
    const OpDef* index = index_op(node);
    if (index && !index_of_extreme(function, node)) builder.call1(index->name, std::vector<Arg>(node.args));
    return nullptr;
  });
}

}  // namespace cdynamo::graph
