// After the last differentiation: the nodes that stand for derivatives alone (graph/core.h) have done their work.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "graph/builder.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "graph/passes/rewrite.h"

namespace cdynamo::graph {
namespace {

// An output is a node's result, not a view's, and another than the others: a copy where what stands for it is not.
Value* as_output(Graph& core, Value* output, Value* stand_in) {
  const bool free = stand_in->node && stand_in->node->op->family != Family::kView &&
                    std::ranges::find(core.outputs, stand_in) == core.outputs.end();
  if (!free) stand_in = Builder(core, Level::kCore).call1("core.cast", {stand_in, stand_in->type.dtype});
  stand_in->type.strides = output->type.strides;
  stand_in->type.weak = false;
  return stand_in;
}

}  // namespace

void remove_functions(Graph& core, std::vector<Value*>* values) {
  static const OpDef* const function = &op("core.function");
  absl::flat_hash_map<const Value*, Value*> stands_for;
  const auto replace = [&](Value*& value) {
    if (const auto found = stands_for.find(value); found != stands_for.end()) value = found->second;
  };
  for (auto it = core.nodes.begin(); it != core.nodes.end();) {
    Node& node = **it;
    for_each_operand(node, replace);
    if (node.op != function) {
      ++it;
      continue;
    }
    const std::vector<Value*> outputs = Args(function->parsed[0], node.args).values("outputs");
    for (size_t i = 0; i < outputs.size(); ++i) stands_for[node.results[i]] = outputs[i];
    it = core.nodes.erase(it);
  }
  if (stands_for.empty()) return;
  for (Value*& output : core.outputs)
    if (const auto found = stands_for.find(output); found != stands_for.end())
      output = as_output(core, output, found->second);
  for (Graph::Mutation& mutation : core.mutations)
    if (const auto found = stands_for.find(mutation.value); found != stands_for.end())
      mutation.value =
          Builder(core, Level::kCore).call1("core.cast", {found->second, found->second->type.dtype});
  if (values)
    for (Value*& value : *values) replace(value);
}

void remove_inner_copies(Graph& core) {
  static const OpDef* const copy = &op("core.copy");
  const auto base_of = [](const Value* value) {
    while (value->node && (value->node->op == copy || value->node->op->family == Family::kView))
      value = std::get<Value*>(value->node->args[0]);
    return value;
  };
  absl::flat_hash_set<const Value*> given_back;
  for (const Value* output : core.outputs) given_back.insert(base_of(output));
  const auto is_inner = [&](const Node& node) {
    if (node.op != copy) return false;
    const Value* base = base_of(node.results[0]);
    return base->node && !given_back.contains(base);
  };
  if (std::ranges::none_of(core.nodes, [&](const auto& node) { return is_inner(*node); })) return;
  rewrite_nodes(core, [&](Builder&, Node& node) -> Value* {
    return is_inner(node) ? std::get<Value*>(node.args[0]) : nullptr;
  });
}

bool remove_detach(Graph& core) {
  remove_functions(core);
  const auto done = [](const Node& node) { return node.op->core.kind == CoreKind::kGone; };
  const bool any =
      std::any_of(core.nodes.begin(), core.nodes.end(), [&](const auto& node) { return done(*node); });
  if (!any) return false;
  rewrite_nodes(core, [&](Builder&, Node& node) -> Value* {
    return done(node) ? std::get<Value*>(node.args[0]) : nullptr;
  });
  // An output that stands for a value which is an output already, or an input, is a copy of it.
  for (const auto& node : core.nodes) {
    if (!done(*node)) continue;
    node->op = &op("core.cast");
    node->args.resize(1);
    node->args.emplace_back(node->results[0]->type.dtype);
  }
  return true;
}

}  // namespace cdynamo::graph
