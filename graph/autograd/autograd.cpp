#include "graph/autograd/autograd.h"

#include <algorithm>
#include <string>

#include "graph/autograd/derivative.h"
#include "graph/passes/view_step.h"

namespace cdynamo::graph {
namespace {

class ReversePass {
 public:
  ReversePass(Builder& builder, const std::vector<Value*>& inputs)
      : b_(builder), reaches_(reaches(builder.graph(), inputs)), gradients_(reaches_.size()) {
    for (const auto& node : b_.graph().nodes) nodes_.push_back(node.get());
  }

  void seed(const Value* output, Value* cotangent) { accumulate(output, wrap(b_, cotangent)); }

  void run() {
    for (size_t i = nodes_.size(); i-- > 0;) step(*nodes_[i]);
    b_.set_location(-1, -1, 0);
  }

  Value* gradient(const Value* input) const { return gradients_.at(input->id); }

 private:
  void accumulate(const Value* value, Tensor gradient) {
    if (!gradient.value || !reaches_[value->id]) return;
    gradient = cast(gradient, value->type.dtype);
    if (gradient.rank() != value->type.rank() ||
        !same_sizes(*b_.graph().sym, gradient.sizes(), value->type.sizes))
      throw InternalError("the gradient of " + value->name + " has other sizes than it");
    Value*& sum = gradients_[value->id];
    sum = sum ? (wrap(b_, sum) + gradient).value : gradient.value;
  }

  void step(Node& node) {
    std::vector<Tensor> grads;
    bool any = false;
    for (const Value* result : node.results) {
      Value* gradient = reaches_[result->id] ? gradients_[result->id] : nullptr;
      grads.push_back(gradient ? wrap(b_, gradient) : Tensor{});
      any |= gradient != nullptr;
    }
    if (!any) return;
    std::vector<const Value*> operands;
    bool needed = false;
    for_each_operand(node, [&](Value*& operand) {
      operands.push_back(operand);
      needed |= reaches_[operand->id];
    });
    if (!needed) return;
    if (!node.op->derivative)
      throw NoDerivative("no derivative is known of " + std::string(node.op->name), node.user_call);
    b_.set_location(node.location, node.user_call, 0);
    b_.set_device(node.results.at(0)->type.device);
    Derivative derivative(b_, node, std::move(grads));
    try {
      node.op->derivative(derivative);
    } catch (const Unsupported& unsupported) {
      throw NoDerivative(unsupported.message, node.user_call);
    }
    for (size_t i = 0; i < operands.size(); ++i) accumulate(operands[i], derivative.gradients[i]);
  }

  Builder& b_;
  const std::vector<bool> reaches_;
  std::vector<Value*> gradients_;  // by value id
  std::vector<Node*> nodes_;       // without those that the pass appends
};

}  // namespace

std::vector<bool> reaches(const Graph& graph, const std::vector<Value*>& inputs) {
  std::vector<bool> result(graph.next_value_id());
  for (const Value* input : inputs) result[input->id] = runtime::is_float(input->type.dtype);
  for (const auto& node : graph.nodes) {
    if (!node->op->differentiable) continue;
    bool any = false;
    for_each_operand(*node, [&](Value*& operand) { any |= result[operand->id]; });
    if (!any) continue;
    for (const Value* value : node->results)
      if (runtime::is_float(value->type.dtype)) result[value->id] = true;
  }
  return result;
}

std::vector<bool> values_behind(const Graph& graph, const std::vector<bool>& outputs) {
  std::vector<bool> behind(graph.next_value_id());
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    if (outputs[i]) behind[graph.outputs[i]->id] = true;
  for (auto it = graph.nodes.rbegin(); it != graph.nodes.rend(); ++it) {
    Node& node = **it;
    const bool any =
        std::ranges::any_of(node.results, [&](const Value* result) { return behind[result->id]; });
    if (!any || !node.op->differentiable) continue;
    for_each_operand(node, [&](Value*& operand) {
      if (runtime::is_float(operand->type.dtype)) behind[operand->id] = true;
    });
  }
  return behind;
}

std::vector<bool> inputs_behind(const Graph& graph, const std::vector<bool>& outputs) {
  const std::vector<bool> behind = values_behind(graph, outputs);
  std::vector<bool> inputs;
  for (const Value* input : graph.inputs) inputs.push_back(behind[input->id]);
  return inputs;
}

std::vector<Value*> differentiate(Builder& builder, const std::vector<Value*>& outputs,
                                  const std::vector<Value*>& cotangents, const std::vector<Value*>& inputs) {
  ReversePass pass(builder, inputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (cotangents.at(i)) pass.seed(outputs[i], cotangents[i]);
  pass.run();
  std::vector<Value*> gradients;
  for (const Value* input : inputs) gradients.push_back(pass.gradient(input));
  return gradients;
}

}  // namespace cdynamo::graph
