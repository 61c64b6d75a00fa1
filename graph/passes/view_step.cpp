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

namespace {

// What a view is a view of: the first operand, or the one at its place where there are several (broadcast_tensors).
const Value* viewed_operand(const Value& view) {
  const Arg& operand = view.node->args.at(0);
  if (const auto* one = std::get_if<Value*>(&operand)) return *one;
  const auto* several = std::get_if<std::vector<Value*>>(&operand);
  const auto& results = view.node->results;
  const auto at = static_cast<size_t>(std::ranges::find(results, &view) - results.begin());
  return several && at < several->size() ? several->at(at) : nullptr;
}

}  // namespace

bool is_one_of_several_views(const Value* value) {
  constexpr std::string_view kSeveral[] = {"unbind", "split", "split_with_sizes", "chunk"};
  while (value->node && result_alias(*value->node) != Alias::kNone) {
    if (std::ranges::find(kSeveral, value->node->op->name) != std::end(kSeveral)) return true;
    value = viewed_operand(*value);
    if (!value) return false;
  }
  return false;
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
