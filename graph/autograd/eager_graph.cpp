#include "graph/autograd/eager_graph.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "graph/autograd/autograd.h"
#include "graph/op.h"

namespace cdynamo::graph {

std::vector<bool> differentiated_values(const Training& training) {
  std::vector<Value*> wanted;
  for (size_t i = 0; i < training.input_wanted.size(); ++i)
    if (training.input_wanted[i]) wanted.push_back(training.function->inputs[i]);
  return reaches(*training.function, wanted);
}

namespace {

// By value id: does a differentiable output depend on it?
std::vector<bool> leads_to_outputs(const Training& training) {
  const Graph& function = *training.function;
  std::vector<bool> matters(function.next_value_id());
  for (size_t i = 0; i < function.outputs.size(); ++i)
    if (training.output_differentiable[i]) matters[function.outputs[i]->id] = true;
  for (auto node = function.nodes.rbegin(); node != function.nodes.rend(); ++node)
    for (const Value* result : (*node)->results)
      if (matters[result->id])
        for_each_operand(**node, [&](Value*& operand) { matters[operand->id] = true; });
  return matters;
}

// By value id: a number of the operator's, or what its body makes from numbers alone: the triangle of `tril`.
std::vector<bool> own_constants(const Graph& function) {
  std::vector<bool> constant(function.next_value_id());
  for (const auto& node : function.nodes) {
    bool is_own = true;
    for_each_operand(*node, [&](Value*& operand) {
      is_own &= operand->node && operand->node->user_call == node->user_call && constant[operand->id];
    });
    for (const Value* result : node->results) constant[result->id] = is_own;
  }
  return constant;
}

// Eager's operator saves no tensor: it is linear in what is differentiated, and nothing else that it reads is a tensor
// of the program's.
bool saves_nothing(const Node& node, const std::vector<bool>& differentiated,
                   const std::vector<bool>& own_constant) {
  const Linearity linearity = node.op->core.linearity;
  if (linearity == Linearity::kAll || linearity == Linearity::kAffine) return true;
  const bool is_product = linearity == Linearity::kProduct || linearity == Linearity::kFirst;
  if (linearity != Linearity::kRest && !is_product) return false;
  bool constant = true;
  for_each_operand(const_cast<Node&>(node), [&](Value*& operand) {
    const Node* made = operand->node;
    const bool is_inside = made && made->user_call == node.user_call;
    if (!differentiated[operand->id])
      constant &= is_inside && own_constant[operand->id];
    else if (is_product)  // `x * 2` saves the number; the body of `mean` divides what it has summed
      constant &= is_inside && made->op != &op("core.cast");
  });
  return constant;
}

}  // namespace

std::vector<int> output_groups(const Training& training) {
  const Graph& function = *training.function;
  const std::vector<bool> differentiated = differentiated_values(training);
  std::vector<int> group(
      function.next_value_id());  // a forest: each value to one of its group, roots to themselves
  std::iota(group.begin(), group.end(), 0);
  const auto root = [&](int id) {
    while (group[id] != id) id = group[id] = group[group[id]];
    return id;
  };
  // By value id: eager's graph of it, up to the inputs, saves a tensor. What is before it alone is never freed, and is
  // shared by outputs that do not meet: a bias that is expanded once for two products.
  std::vector<bool> saves(function.next_value_id());
  // By value id: whose groups a reader belongs to. A node that stands for several calls is none of them: each reader has one
  // of its own, on what the calls share.
  std::vector<std::vector<int>> shared(function.next_value_id());
  const std::vector<bool> own_constant = own_constants(function);
  for (const auto& node : function.nodes) {
    const int first = node->results.at(0)->id;
    bool is_deep = !saves_nothing(*node, differentiated, own_constant);
    for_each_operand(*node, [&](Value*& operand) {
      if (!saves[operand->id]) return;
      is_deep = true;
      for (int id : shared[operand->id]) {
        group[root(id)] = root(first);
        if (node->is_merged) shared[first].push_back(id);
      }
    });
    if (!node->is_merged) shared[first] = {first};
    std::ranges::sort(shared[first]);
    shared[first].erase(std::ranges::unique(shared[first]).begin(), shared[first].end());
    for (const Value* result : node->results) {
      group[root(result->id)] = root(first);
      shared[result->id] = shared[first];
      saves[result->id] = is_deep && differentiated[result->id];
    }
  }
  std::vector<int> groups(function.outputs.size(), -1);
  absl::flat_hash_map<int, int> numbers;
  for (size_t i = 0; i < groups.size(); ++i)
    if (training.output_differentiable[i] && saves[function.outputs[i]->id])
      groups[i] =
          numbers.emplace(root(function.outputs[i]->id), static_cast<int>(numbers.size())).first->second;
  return groups;
}

bool saves_nothing(const Training& training) {
  if (!training.saved.empty()) return false;
  const std::vector<bool> differentiated = differentiated_values(training),
                          matters = leads_to_outputs(training),
                          own_constant = own_constants(*training.function);
  return std::ranges::all_of(training.function->nodes, [&](const auto& node) {
    const int result = node->results.at(0)->id;
    return !differentiated[result] || !matters[result] || saves_nothing(*node, differentiated, own_constant);
  });
}

std::vector<int> overwritten_inputs(const Training& training) {
  const Graph& function = *training.function;
  const std::vector<bool> matters = leads_to_outputs(training);
  std::vector<int> inputs;
  for (const Graph::Mutation& mutation : function.mutations)
    if (matters[function.inputs[mutation.input]->id]) inputs.push_back(mutation.input);
  return inputs;
}

}  // namespace cdynamo::graph
