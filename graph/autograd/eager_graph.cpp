#include "graph/autograd/eager_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
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

bool others_are_differentiated(const Node& node, const std::vector<bool>& differentiated) {
  int index = 0, count = 0;
  for_each_operand(const_cast<Node&>(node),
                   [&](Value*& operand) { count += index++ > 0 && differentiated[operand->id]; });
  return count > 0;
}

// Eager's operator saves no tensor: it is linear in what is differentiated, and nothing else that it reads is a tensor
// of the program's.
bool saves_nothing(const Node& node, const std::vector<bool>& differentiated,
                   const std::vector<bool>& own_constant) {
  static const OpDef* const function = &op("core.function");
  if (node.op == function) return !Args(node.op->parsed[node.overload], node.args).boolean("frees");
  const Linearity linearity = node.op->core.linearity;
  if (linearity == Linearity::kAll || linearity == Linearity::kAffine) return true;
  const bool is_product = linearity == Linearity::kProduct || linearity == Linearity::kFirst;
  if (linearity == Linearity::kFirstAffine) return !others_are_differentiated(node, differentiated);
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

// Values that belong together, by id.
class Groups {
 public:
  explicit Groups(int count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  int of(int id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }
  void join(int a, int b) { parent_[of(a)] = of(b); }

 private:
  std::vector<int> parent_;  // roots are their own
};

// Joins groups that meet in inputs, where the same inputs that have a history are behind them.
void join_at_inputs(const Training& training, const std::vector<std::vector<const Value*>>& readers,
                    Groups& groups) {
  const std::vector<Value*>& inputs = training.function->inputs;
  absl::flat_hash_map<int, std::set<int>> histories;  // by group: inputs
  for (size_t i = 0; i < training.input_has_history.size(); ++i)
    if (training.input_has_history[i])
      for (const Value* reader : readers[inputs[i]->id])
        histories[groups.of(reader->id)].insert(static_cast<int>(i));
  for (const Value* input : inputs) {
    std::map<std::set<int>, int> met;  // groups, by what is behind them
    for (const Value* reader : readers[input->id]) {
      const int group = groups.of(reader->id);
      groups.join(group, met.emplace(histories[group], group).first->second);
    }
  }
}

}  // namespace

std::vector<History> histories(const Training& training) {
  constexpr int kMost = 16;
  const Graph& function = *training.function;
  const std::vector<bool> differentiated = differentiated_values(training),
                          behind = values_behind(function, training.output_differentiable);
  const auto has_gradient = [&](const Value* value) {
    return differentiated[value->id] && behind[value->id];
  };
  Groups groups(function.next_value_id());
  std::vector<std::vector<const Value*>> readers(function.next_value_id());  // of inputs: results of nodes
  for (const auto& node : function.nodes) {
    const auto result = std::ranges::find_if(node->results, has_gradient);
    if (!node->op->differentiable || result == node->results.end()) continue;
    for (const Value* other : node->results)
      if (has_gradient(other)) groups.join(other->id, (*result)->id);
    for_each_operand(*node, [&](Value*& operand) {
      if (!has_gradient(operand)) return;
      if (operand->node)
        groups.join(operand->id, (*result)->id);
      else
        readers[operand->id].push_back(*result);
    });
  }
  join_at_inputs(training, readers, groups);

  std::vector<History> histories(1);
  absl::flat_hash_map<int, int> numbers;
  const auto number_of = [&](int id) {
    const int number = numbers.emplace(groups.of(id), std::min<int>(numbers.size(), kMost - 1)).first->second;
    if (number == static_cast<int>(histories.size())) histories.emplace_back();
    return number;
  };
  for (size_t i = 0; i < function.outputs.size(); ++i)
    if (training.output_differentiable[i])
      histories[has_gradient(function.outputs[i]) ? number_of(function.outputs[i]->id) : 0].outputs.push_back(
          i);
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    if (!training.input_wanted[i]) continue;
    std::set<int> reached;
    for (const Value* reader : readers[function.inputs[i]->id]) reached.insert(number_of(reader->id));
    if (has_gradient(function.inputs[i]) && reached.empty())
      reached.insert(number_of(function.inputs[i]->id));
    if (reached.empty()) reached.insert(0);
    for (int number : reached) histories[number].inputs.push_back(static_cast<int>(i));
  }
  return histories;
}

std::vector<int> output_groups(const Training& training) {
  const Graph& function = *training.function;
  const std::vector<bool> differentiated = differentiated_values(training);
  Groups group(function.next_value_id());
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
        group.join(id, first);
        if (node->is_merged) shared[first].push_back(id);
      }
    });
    if (!node->is_merged) shared[first] = {first};
    std::ranges::sort(shared[first]);
    shared[first].erase(std::ranges::unique(shared[first]).begin(), shared[first].end());
    for (const Value* result : node->results) {
      group.join(result->id, first);
      shared[result->id] = shared[first];
      saves[result->id] = is_deep && differentiated[result->id];
    }
  }
  std::vector<int> groups(function.outputs.size(), -1);
  absl::flat_hash_map<int, int> numbers;
  for (size_t i = 0; i < groups.size(); ++i)
    if (training.output_differentiable[i] && saves[function.outputs[i]->id])
      groups[i] =
          numbers.emplace(group.of(function.outputs[i]->id), static_cast<int>(numbers.size())).first->second;
  return groups;
}

bool saves_on_the_way(const Training& training, const std::vector<bool>& outputs,
                      const std::vector<bool>& inputs) {
  const Graph& function = *training.function;
  std::vector<Value*> wanted;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]) wanted.push_back(function.inputs[i]);
  const std::vector<bool> differentiated = differentiated_values(training), leads = reaches(function, wanted),
                          behind = values_behind(function, outputs), own_constant = own_constants(function);
  return std::ranges::any_of(function.nodes, [&](const auto& node) {
    const bool is_on_the_way = std::ranges::any_of(node->results, [&](const Value* result) {
      return leads[result->id] && behind[result->id] && differentiated[result->id];
    });
    return is_on_the_way && !saves_nothing(*node, differentiated, own_constant);
  });
}

std::vector<bool> freed_outputs(const Graph& function, const std::vector<bool>& input_wanted,
                                const std::vector<bool>& output_differentiable,
                                const std::vector<int>& freed_calls) {
  std::vector<bool> freed(function.outputs.size());
  if (freed_calls.empty()) return freed;
  std::vector<Value*> wanted;
  for (size_t i = 0; i < input_wanted.size(); ++i)
    if (input_wanted[i]) wanted.push_back(function.inputs[i]);
  const std::vector<bool> flows = reaches(function, wanted), own_constant = own_constants(function);
  // Where PyTorch has one operator, it raises for all that it was differentiated by.
  absl::flat_hash_set<int> saving;
  for (const auto& node : function.nodes)
    if (!node->is_merged && std::ranges::find(freed_calls, node->user_call) != freed_calls.end() &&
        flows[node->results.at(0)->id] && !saves_nothing(*node, flows, own_constant))
      saving.insert(node->user_call);
  std::vector<bool> is_open(function.next_value_id());  // by value id: nothing was freed on a way from there
  for (const Value* input : wanted) is_open[input->id] = flows[input->id];
  for (const auto& node : function.nodes) {
    if (!node->op->differentiable || (!node->is_merged && saving.contains(node->user_call))) continue;
    bool any_open = false;
    for_each_operand(*node, [&](Value*& operand) { any_open |= is_open[operand->id]; });
    for (const Value* result : node->results) is_open[result->id] = any_open && flows[result->id];
  }
  for (size_t i = 0; i < freed.size(); ++i) {
    const int id = function.outputs[i]->id;
    freed[i] = output_differentiable[i] && flows[id] && !is_open[id];
  }
  return freed;
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
