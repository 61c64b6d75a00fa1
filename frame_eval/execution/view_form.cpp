#include "frame_eval/execution/view_form.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>

namespace cdynamo::frame_eval {
namespace {

bool is_view(const graph::Value* value) {
  return value->node && graph::result_alias(*value->node) == graph::Alias::kView;
}

bool is_the_same_elsewhere(const graph::Node& view) {
  constexpr std::string_view kNames[] = {"detach", "data", "from_numpy"};
  return std::ranges::find(kNames, view.op->name) != std::end(kNames);
}

// Whether `value` is `root`, or its elements in the same places under another object.
bool is_whole_of(const graph::Value* value, const graph::Value* root) {
  while (value != root && value->node &&
         (value->node->op->name == "numpy" || is_the_same_elsewhere(*value->node)))
    value = graph::viewed_operand(*value);
  return value == root;
}

ViewForm view_form(const graph::Value* output, const std::vector<graph::CapturedWrite>& writes) {
  ViewForm form{.history = graph::view_history(output)};
  if (!is_view(output)) return form;
  const graph::Value* operand = graph::viewed_operand(*output);
  const std::string_view name = output->node->op->name;
  form.is_one_of_several = form.history.one_of_several && !form.history.no_grad;
  form.is_unbound = name == "unbind";
  form.is_from_numpy = name == "from_numpy";
  form.is_whole = is_the_same_elsewhere(*output->node) && is_whole_of(operand, form.history.root);
  form.is_apart = is_the_same_elsewhere(*output->node) || (operand && graph::is_recast(*output));
  if (form.history.special() || (form.history.root->requires_grad && !form.history.root->node))
    form.is_stale = std::ranges::any_of(writes, [&](const graph::CapturedWrite& write) {
      return write.node->id > output->node->id &&
             graph::view_history(write.target).counter == form.history.counter;
    });
  return form;
}

void link_to_whole_results(const std::vector<graph::Value*>& outputs, std::vector<ViewForm>& views) {
  absl::flat_hash_map<const graph::Value*, int> whole;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (views[i].is_whole) whole.try_emplace(outputs[i], static_cast<int>(i));
  if (whole.empty()) return;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (views[i].is_whole) continue;
    for (const graph::Value* value = outputs[i]; is_view(value) && views[i].of_result < 0;) {
      value = graph::viewed_operand(*value);
      if (auto found = whole.find(value); found != whole.end()) views[i].of_result = found->second;
    }
  }
}

}  // namespace

std::vector<ViewForm> view_forms(const graph::Graph& captured) {
  const std::vector<graph::CapturedWrite> writes = graph::captured_writes(captured);
  std::vector<ViewForm> views;
  for (const graph::Value* output : captured.outputs) views.push_back(view_form(output, writes));
  link_to_whole_results(captured.outputs, views);
  return views;
}

}  // namespace cdynamo::frame_eval
