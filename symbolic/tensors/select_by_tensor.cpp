#include "symbolic/tensors/select_by_tensor.h"

#include <algorithm>

#include "symbolic/capture/executor_state.h"

namespace cdynamo::symbolic {
namespace {

const graph::Value* storage(const TensorCapture& capture, const graph::Value* value) {
  const auto found = capture.base_of.find(value);
  return found == capture.base_of.end() ? value : found->second;
}

[[noreturn]] void refuse(Executor& ex, const SelectByTensor& select) {
  ex.state().break_step = select.step;
  break_graph("CD0421", "");
}

}  // namespace

void note_select_by_tensor(Executor& ex, const graph::Value* from, const graph::Value* result) {
  const int64_t step = static_cast<int64_t>(ex.state().root_trace.size()) - 1;
  tensor_capture(ex).selects_by_tensor.push_back({from, result, step});
}

void refuse_write_to_select_by_tensor(Executor& ex, const graph::Value* value) {
  const TensorCapture& capture = tensor_capture(ex);
  const graph::Value* written = storage(capture, value);
  for (const SelectByTensor& select : capture.selects_by_tensor)
    if (written == storage(capture, select.from) || written == storage(capture, select.result))
      refuse(ex, select);
}

void refuse_outputs_of_select_by_tensor(Executor& ex) {
  const TensorCapture& capture = tensor_capture(ex);
  const auto is_output = [&](const graph::Value* value) {
    const graph::Value* wanted = storage(capture, value);
    return std::ranges::any_of(
        ex.graph().outputs, [&](const graph::Value* output) { return storage(capture, output) == wanted; });
  };
  for (const SelectByTensor& select : capture.selects_by_tensor)
    if (is_output(select.result) && (capture.storage_of.count(select.from) || is_output(select.from)))
      refuse(ex, select);
}

}  // namespace cdynamo::symbolic
