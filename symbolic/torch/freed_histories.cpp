#include "symbolic/torch/freed_histories.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <string_view>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_set.h"
#include "graph/op.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/tensors/possible_alias.h"
#include "symbolic/torch/differentiation.h"

namespace cdynamo::symbolic {
namespace {

using graph::Node;
using graph::Value;

// Operators whose derivatives read sizes and numbers alone, whatever their operands.
bool saves_no_tensor(const Node& node) {
  static constexpr std::string_view kNames[] = {"add",   "cat", "clone", "contiguous", "flatten",
                                                "mean",  "neg", "ravel", "repeat",     "reshape",
                                                "stack", "sub", "sum",   "to"};
  return node.op->view || std::ranges::find(kNames, node.op->name) != std::end(kNames);
}

// The nodes that a backward from the outputs goes through on its way to the inputs.
std::vector<const Node*> nodes_between(Executor& ex, const std::vector<Value*>& outputs,
                                       const std::vector<Value*>& inputs) {
  const TensorCapture& capture = tensor_capture(ex);
  // The way ends at the inputs: what has made them is not gone through.
  absl::flat_hash_set<const Value*> dependents = dependents_of(ex, inputs);
  for (const Value* input : inputs) dependents.erase(input);
  absl::flat_hash_set<const Value*> behind;
  const auto add = [&](const Value* value) { behind.insert({value, base_of(capture, value)}); };
  for (const Value* output : outputs) add(output);
  const auto counts = [&](const Value* value) {
    return behind.contains(value) && dependents.contains(value);
  };
  std::vector<const Node*> between;
  for (const auto& node : std::views::reverse(ex.graph().nodes)) {
    if (node->no_grad) continue;
    bool is_between = std::ranges::any_of(node->results, counts);
    if (node->in_place) is_between |= counts(base_of(capture, std::get<Value*>(node->args.at(0))));
    if (node->op->name == "core.function")
      is_between |=
          std::ranges::any_of(graph::Args(node->op->parsed[0], node->args).values("outputs"), counts);
    if (!is_between) continue;
    between.push_back(node.get());
    graph::for_each_operand(*node, [&](Value*& operand) { add(operand); });
  }
  return between;
}

}  // namespace

void free_histories(Executor& ex, const std::vector<Value*>& outputs, const std::vector<Value*>& inputs,
                    bool retain_graph) {
  auto& freed = tensor_capture(ex).freed;
  std::vector<const Value*> read;
  for (const Node* node : nodes_between(ex, outputs, inputs))
    if (!saves_no_tensor(*node)) read.insert(read.end(), node->results.begin(), node->results.end());
  std::optional<int64_t> first;
  for (const Value* value : read)
    if (const auto found = freed.find(value); found != freed.end())
      first = std::min(found->second, first.value_or(found->second));
  if (first) {
    ex.state().break_step = *first;
    break_graph("CD0400", "a backward through what another one has freed");
  }
  if (retain_graph) return;
  for (const Value* value : read) freed.emplace(value, current_root_step(ex));
}

std::vector<int> freed_calls(Executor& ex) {
  const auto& freed = tensor_capture(ex).freed;
  // What a gradient with a history is computed with counts to the calls whose derivatives it is made of, and is not freed with them.
  const auto has_history = [](const auto& node) {
    return node->op->name == "autograd.grad" && !node->no_grad;
  };
  if (freed.empty() || std::ranges::any_of(ex.graph().nodes, has_history)) return {};
  absl::btree_set<int> calls;
  absl::flat_hash_set<int> others;
  for (const auto& node : ex.graph().nodes) {
    if (node->no_grad || node->user_call < 0 || saves_no_tensor(*node)) continue;
    const bool is_freed =
        std::ranges::any_of(node->results, [&](const Value* each) { return freed.contains(each); });
    if (is_freed)
      calls.insert(node->user_call);
    else
      others.insert(node->user_call);
  }
  std::vector<int> all(calls.begin(), calls.end());
  std::erase_if(all, [&](int call) { return others.contains(call); });
  return all;
}

}  // namespace cdynamo::symbolic
