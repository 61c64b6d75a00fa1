#include "symbolic/tensors/wider_view.h"

#include <algorithm>

#include "graph/passes/view_step.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// function(first, *rest), which Python computes at each call.
SourcePtr computed(PyObject* function, std::vector<Computation::Operand> operands) {
  auto computation = std::make_shared<Computation>();
  computation->function = PyRef::borrow(function);
  computation->steps = static_cast<int>(operands.size());
  computation->operands = std::move(operands);
  return source_of(std::move(computation));
}

Computation::Operand number(PyRef constant) {
  return {.source = nullptr, .integer = {}, .constant = std::move(constant)};
}

}  // namespace

void require_offset_of_view(Executor& ex, const graph::Value* viewed, graph::DType dtype) {
  const int64_t from = runtime::bytes(viewed->type.dtype), to = runtime::bytes(dtype);
  const graph::Value* root = graph::view_history(viewed).root;
  if (from >= to || root->node) return;
  const auto& inputs = ex.state().result.inputs;
  const auto input = std::ranges::find(inputs, root, &GraphInput::value);
  const PyRef tensor = input != inputs.end() ? follow(*input->source, ex.state().request.roots) : PyRef();
  if (!tensor || input->kind != InputKind::kTorchTensor) return;
  const PyRef offset = checked(PyObject_CallMethod(tensor.get(), "storage_offset", nullptr));
  const int64_t ratio = to / from;
  if (PyLong_AsLongLong(offset.get()) % ratio != 0)
    break_graph("CD0404", "view: a wider dtype of what begins elsewhere in its storage");
  PyObject* method = library_object("torch", "Tensor.storage_offset");
  const SourcePtr begin = computed(
      method, {{.source = input->source, .integer = {}, .constant = {}, .integers = {}, .is_object = true}});
  const SourcePtr rest = computed(
      library_object("operator", "mod"),
      {{.source = begin, .integer = {}, .constant = {}}, number(checked(PyLong_FromLongLong(ratio)))});
  add_guard(ex, GuardKind::kEquals, rest, checked(PyLong_FromLong(0)).get());
}

}  // namespace cdynamo::symbolic
