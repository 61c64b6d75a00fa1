#include "symbolic/tensors/possible_alias.h"

#include <algorithm>
#include <string_view>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"

namespace cdynamo::symbolic {
namespace {

[[noreturn]] void refuse(Executor& ex, const PossibleAlias& alias) {
  ex.state().break_step = alias.step;
  break_graph(alias.broken, alias.what);
}

}  // namespace

int64_t current_root_step(Executor& ex) { return static_cast<int64_t>(ex.state().root_trace.size()) - 1; }

void note_possible_alias(Executor& ex, const graph::Value* from, const graph::Value* result,
                         const char* broken, int64_t step, const char* what) {
  TensorCapture& capture = tensor_capture(ex);
  // What `from` may be, and what may be `from`, the result may be too.
  const graph::Value* base = base_of(capture, from);
  std::vector<const graph::Value*> others = {from};
  for (const PossibleAlias& alias : capture.possible_aliases) {
    if (base_of(capture, alias.from) == base) others.push_back(alias.result);
    if (base_of(capture, alias.result) == base) others.push_back(alias.from);
  }
  std::ranges::sort(others, {}, &graph::Value::id);
  const auto [first, last] = std::ranges::unique(others);
  others.erase(first, last);
  for (const graph::Value* other : others)
    if (other != result) capture.possible_aliases.push_back({other, result, broken, what, step});
}

void refuse_write_to_possible_alias(Executor& ex, const graph::Value* value) {
  const TensorCapture& capture = tensor_capture(ex);
  const graph::Value* written = base_of(capture, value);
  for (const PossibleAlias& alias : capture.possible_aliases)
    if (written == base_of(capture, alias.from) || written == base_of(capture, alias.result))
      refuse(ex, alias);
}

void refuse_hook_on_possible_alias(Executor& ex, const graph::Value* value) {
  const TensorCapture& capture = tensor_capture(ex);
  const graph::Value* base = base_of(capture, value);
  for (const PossibleAlias& alias : capture.possible_aliases)
    if (std::string_view(alias.broken) == "CD0001" &&
        (base == base_of(capture, alias.from) || base == base_of(capture, alias.result)))
      refuse(ex, alias);
}

void refuse_identity_of_possible_alias(Executor& ex, const graph::Value* left, const graph::Value* right) {
  for (const PossibleAlias& alias : tensor_capture(ex).possible_aliases)
    if ((left == alias.from && right == alias.result) || (right == alias.from && left == alias.result))
      refuse(ex, alias);
}

void refuse_unknown_identity(Executor& ex, const ValuePtr& left, const ValuePtr& right) {
  if (is_array(left) && is_array(right))
    refuse_identity_of_possible_alias(ex, graph_value(left), graph_value(right));
}

void refuse_outputs_of_possible_aliases(Executor& ex) {
  const TensorCapture& capture = tensor_capture(ex);
  const auto is_output = [&](const graph::Value* value) {
    const graph::Value* wanted = base_of(capture, value);
    return std::ranges::any_of(
        ex.graph().outputs, [&](const graph::Value* output) { return base_of(capture, output) == wanted; });
  };
  for (const PossibleAlias& alias : capture.possible_aliases)
    if (is_output(alias.result) && !capture.made_leaves.contains(alias.result) &&
        (capture.storage_of.count(alias.from) || is_output(alias.from)))
      refuse(ex, alias);
}

}  // namespace cdynamo::symbolic
