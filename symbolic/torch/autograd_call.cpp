#include "symbolic/torch/autograd_call.h"

#include "graph/strides.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/attributes.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/interop/torch_access.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/library_call.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using graph::Value;

// How operands lie; None: row-major, in sizes that may change.
void lay_out(Executor& ex, PyObject* call, const std::vector<Value*>& operands, size_t results) {
  const auto count = static_cast<Py_ssize_t>(operands.size());
  PyRef strides = checked(PyTuple_New(count)), are_floats = checked(PyTuple_New(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    const graph::TensorType& type = operands[i]->type;
    const bool is_row_major = graph::is_contiguous(*ex.graph().sym, type);
    PyTuple_SET_ITEM(strides.get(), i,
                     is_row_major ? Py_NewRef(Py_None) : constant_extents(ex, type.strides).release());
    PyTuple_SET_ITEM(are_floats.get(), i, PyBool_FromLong(runtime::is_float(type.dtype)));
  }
  checked(PyObject_CallMethod(call, "lay_out", "OOn", strides.get(), are_floats.get(),
                              static_cast<Py_ssize_t>(results)));
}

// packed_recurrence(function, sizes of the weights, options, operands, like): see polyfills/recurrent.py.
ValuePtr packed_recurrence(Executor& ex, PyObject*, const CallArgs& args) {
  PyObject* make = find_python_side(PythonSide::kPackedRecurrence);
  PyErr_Clear();
  PyRef given = checked(PyTuple_New(3));
  for (Py_ssize_t i = 0; i < 3; ++i) {
    const std::optional<PyRef> constant = args.positional.at(i)->as_constant();
    if (!constant || !make) break_graph("CD0404", "a recurrent layer of a packed sequence");
    PyTuple_SET_ITEM(given.get(), i, Py_NewRef(constant->get()));
  }
  std::vector<Value*> operands;
  std::vector<graph::TensorType> types;
  for (const ValuePtr& item : items_of(ex, args.positional.at(3))) operands.push_back(graph_value(item));
  for (const ValuePtr& item : items_of(ex, args.positional.at(4))) {
    types.push_back(graph_value(item)->type);
    types.back().strides = graph::contiguous_strides(types.back().sizes);
  }
  return append_autograd_call(ex, checked(PyObject_CallObject(make, given.get())), operands,
                              std::move(types));
}

constexpr SpecialRow kAutogradCallRows[] = {{"cdynamo.polyfills.rules.packed_recurrence", packed_recurrence}};

}  // namespace

ValuePtr append_autograd_call(Executor& ex, PyRef call, const std::vector<Value*>& operands,
                              std::vector<graph::TensorType> types) {
  const std::string name = text_attribute(call.get(), "name");
  const torch_access::Api* api = torch_access::api();
  if (!api || !api->tensor_from_memory)
    break_graph("CD0405", name + ": this PyTorch gives no way to call it");
  if (torch_capture(ex).autocast.enabled()) break_graph("CD0405", name + " is called under autocast");
  std::vector<ValuePtr> given;
  for (Value* operand : operands) {
    if (!operand || operand->type.weak) break_graph("CD0404", name + " of what is no tensor of the graph");
    given.push_back(make_tensor(ex, operand));
  }
  return recorded_call(ex, "call_function", call, positional(std::move(given)), [&] {
    lay_out(ex, call.get(), operands, types.size());
    auto held = std::make_shared<LibraryCall>(call);
    const std::vector<Value*> results = append_library_call(
        ex, operands, name, text_attribute(call.get(), "attributes"), *held, std::move(types));
    ex.add_library_call(std::move(held));
    std::vector<ValuePtr> tensors;
    for (Value* value : results) tensors.push_back(make_tensor(ex, value));
    return make_tuple(ex, std::move(tensors));
  });
}

std::span<const SpecialRow> autograd_call_rules() { return kAutogradCallRows; }

}  // namespace cdynamo::symbolic
