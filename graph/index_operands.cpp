#include "graph/index_operands.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace cdynamo::graph {

namespace {

bool is_index_parameter(const Param& param) {
  static constexpr std::array<std::string_view, 3> kNames = {"index", "indices", "ind"};
  return std::ranges::find(kNames, std::string_view(param.name)) != kNames.end();
}

// Calls visit(parameter, value) for the tensors among the arguments.
template <typename F>
void for_each_tensor(const OpDef& op, size_t overload, const std::vector<Arg>& args, F&& visit) {
  const std::vector<Param>& params = op.parsed.at(overload).params;
  for (size_t i = 0; i < args.size() && i < params.size(); ++i) {
    if (auto* value = std::get_if<Value*>(&args[i])) {
      if (*value) visit(params[i], **value);
    } else if (auto* list = std::get_if<std::vector<Value*>>(&args[i])) {
      for (const Value* item : *list)
        if (item) visit(params[i], *item);
    }
  }
}

// Runs whether its results are read or not.
bool has_effects(const Node& node) {
  if (node.in_place || node.op->family == Family::kRandom || node.op->family == Family::kLibrary) return true;
  const std::vector<Param>& params = node.op->parsed.at(node.overload).params;
  return node.op->name == "core.library" || node.op->name == "core.function" ||
         std::ranges::any_of(params, [](const Param& param) { return param.mutated; });
}

}  // namespace

bool takes_indices(const OpDef& op, size_t overload, const std::vector<Arg>& args) {
  bool any = false;
  for_each_tensor(op, overload, args, [&](const Param& param, const Value& value) {
    any |= is_index_parameter(param) && runtime::is_integer(value.type.dtype);
  });
  return any;
}

bool indexes_nothing(const OpDef& op, size_t overload, const std::vector<Arg>& args) {
  if (!takes_indices(op, overload, args)) return false;
  const Value* indexed = nullptr;
  for_each_tensor(op, overload, args, [&](const Param& param, const Value& value) {
    if (!indexed && !is_index_parameter(param)) indexed = &value;
  });
  if (!indexed) return false;
  const Sym count = indexed->type.numel();
  return count.is_constant() && count.constant() == 0;
}

void output_unread_lookups(Graph& captured) {
  std::vector<bool> live(captured.next_value_id());
  for (const Value* output : captured.outputs) live[output->id] = true;
  for (auto it = captured.nodes.rbegin(); it != captured.nodes.rend(); ++it) {
    Node& node = **it;
    bool needed = has_effects(node);
    for (const Value* result : node.results) needed |= live[result->id];
    if (!needed && takes_indices(*node.op, node.overload, node.args)) {
      Value* result = node.results.at(0);
      result->requires_grad = false;
      captured.outputs.push_back(result);
      needed = true;
    }
    if (needed) for_each_operand(node, [&](Value* operand) { live[operand->id] = true; });
  }
}

}  // namespace cdynamo::graph
