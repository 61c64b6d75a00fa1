#include "symbolic/tensors/picked_views.h"

#include <algorithm>

#include "symbolic/capture/executor_state.h"

namespace cdynamo::symbolic {
namespace {

const graph::Value* storage(const TensorCapture& capture, const graph::Value* value) {
  const auto found = capture.base_of.find(value);
  return found == capture.base_of.end() ? value : found->second;
}

[[noreturn]] void refuse(Executor& ex, const PickedView& picked) {
  ex.state().break_step = picked.step;
  break_graph("CD0421", "");
}

}  // namespace

void note_picked_view(Executor& ex, const graph::Value* from, const graph::Value* result) {
  const int64_t step = static_cast<int64_t>(ex.state().root_trace.size()) - 1;
  tensor_capture(ex).picked.push_back({from, result, step});
}

void refuse_write_to_picked(Executor& ex, const graph::Value* value) {
  const TensorCapture& capture = tensor_capture(ex);
  const graph::Value* written = storage(capture, value);
  for (const PickedView& picked : capture.picked)
    if (written == storage(capture, picked.from) || written == storage(capture, picked.result))
      refuse(ex, picked);
}

void refuse_picked_outputs(Executor& ex) {
  const TensorCapture& capture = tensor_capture(ex);
  const auto is_output = [&](const graph::Value* value) {
    const graph::Value* wanted = storage(capture, value);
    return std::ranges::any_of(
        ex.graph().outputs, [&](const graph::Value* output) { return storage(capture, output) == wanted; });
  };
  for (const PickedView& picked : capture.picked)
    if (is_output(picked.result) && (capture.storage_of.count(picked.from) || is_output(picked.from)))
      refuse(ex, picked);
}

}  // namespace cdynamo::symbolic
