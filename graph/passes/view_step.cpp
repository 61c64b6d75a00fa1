#include "graph/passes/view_step.h"

#include <algorithm>

#include "graph/op.h"

namespace cdynamo::graph {

bool same_size(SymContext& context, const Sym& a, const Sym& b) {
  if (a == b) return true;
  if (a.is_constant() && b.is_constant()) return false;
  return context.guard_eq(a, b, "sizes that meet in a view");
}

bool same_sizes(SymContext& context, const std::vector<Sym>& a, const std::vector<Sym>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Sym& x, const Sym& y) { return same_size(context, x, y); });
}

Value* viewed_operand(const Value& view) {
  const Arg& operand = view.node->args.at(0);
  if (const auto* one = std::get_if<Value*>(&operand)) return *one;
  const auto* several = std::get_if<std::vector<Value*>>(&operand);
  const auto at = static_cast<size_t>(view.index);
  return several && at < several->size() ? several->at(at) : nullptr;
}

bool is_recast(const Value& view) {
  const DType from = viewed_operand(view)->type.dtype, to = view.type.dtype;
  return from != to && !(runtime::is_float(from) && runtime::is_float(to));
}

ViewHistory view_history(const Value* value) {
  constexpr std::string_view kSeveral[] = {"unbind", "split", "split_with_sizes", "chunk"};
  ViewHistory history;
  for (; value->node; value = viewed_operand(*value)) {
    const Alias alias = result_alias(*value->node);
    if (alias == Alias::kNone || !viewed_operand(*value)) break;
    if (alias == Alias::kSelf) continue;
    const std::string_view name = value->node->op->name;
    const bool is_from_numpy = name == "from_numpy";
    if ((name == "data" || is_from_numpy) && !history.counter) history.counter = value;
    history.own_storage |= is_from_numpy;
    history.detached |= name == "data" || name == "detach" || is_from_numpy || is_recast(*value);
    if (history.detached) continue;
    history.no_grad |= value->node->no_grad;
    history.one_of_several |= std::ranges::find(kSeveral, name) != std::end(kSeveral);
  }
  history.root = value;
  if (!history.counter) history.counter = value;
  return history;
}

std::vector<CapturedWrite> captured_writes(const Graph& captured) {
  std::vector<CapturedWrite> writes;
  for (const auto& node : captured.nodes) {
    if (node->in_place) writes.push_back({node.get(), std::get<Value*>(node->args.at(0))});
    if (node->overload >= static_cast<int>(node->op->parsed.size())) continue;
    const std::vector<Param>& params = node->op->parsed[node->overload].params;
    for (size_t i = 0; i < params.size() && i < node->args.size(); ++i)
      if (auto* value = std::get_if<Value*>(&node->args[i]); params[i].mutated && value && *value)
        writes.push_back({node.get(), *value});
  }
  return writes;
}

Value* viewed(const Value* value) {
  const bool is_view = value->node && value->node->op->family == Family::kView;
  return is_view ? std::get<Value*>(value->node->args[0]) : nullptr;
}

const Value* base_of(const Value* value) {
  while (const Value* next = viewed(value)) value = next;
  return value;
}

bool is_aliasing_view(const OpDef& op) { return op.core.view != nullptr; }

ViewStep make_view_step(const Node& view) {
  Value* operand = std::get<Value*>(view.args[0]);
  return {view.op, view.overload, view.args, operand->type.sizes, view.results[0]->type.sizes};
}

bool advance(SymContext& context, const ViewStep& step, StorageLayout& layout) {
  if (!step.op->core.view->advance(context, Args(step.op->parsed[step.overload], step.args), layout))
    return false;
  layout.sizes = step.result_sizes;
  return true;
}

Value* apply(Builder& builder, const ViewStep& step, Value* operand) {
  std::vector<Arg> args = step.args;
  args[0] = operand;
  return builder.call(*step.op, step.overload, std::move(args)).at(0);
}

Value* scatter_back(Builder& builder, const ViewStep& step, Value* operand, Value* content) {
  return step.op->core.view->scatter_back(builder, step, operand, content);
}

}  // namespace cdynamo::graph
