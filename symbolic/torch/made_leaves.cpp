#include "symbolic/torch/made_leaves.h"

#include <algorithm>

#include "graph/passes/view_step.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/interop/torch_access.h"
#include "symbolic/tensors/possible_alias.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/differentiation.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/torch/tensor_hooks.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

constexpr const char* kRequiresGrad = "requires_grad_()";

PyTypeObject* parameter_type() {
  return reinterpret_cast<PyTypeObject*>(library_object("torch.nn", "Parameter"));
}

bool has_storage_of_its_own(const TensorCapture& capture, const graph::Value* value) {
  return value->node && !capture.storage_of.contains(value) && !capture.base_of.contains(value);
}

// A tensor that shares memory with others, as x.detach(), becomes a copy: the same as long as no memory is written to. What leaves, if it
// does, is on the memory.
void take_storage_of_its_own(Executor& ex, TensorValue& tensor, const ValuePtr& self,
                             const graph::Value* content) {
  TensorCapture& capture = tensor_capture(ex);
  graph::Value* view = tensor.value();
  if (tensor.source || !view->node) break_graph("CD0400", "requires_grad_() of what came in");
  // Views of it require grad from then on, too.
  for (const auto& node : ex.graph().nodes)
    for (const graph::Value* result : node->results)
      if (result != content && graph::viewed_operand(*result) == view)
        break_graph("CD0400", "requires_grad_() of a view that has views");
  graph::Value* detached = append_call1(ex, "detach", {view});
  graph::Value* copy = append_call1(ex, "clone", {detached});
  for (int d = 0; d < copy->type.rank(); ++d)
    if (!ex.graph().sym->guard_eq(copy->type.strides[d], view->type.strides[d], kRequiresGrad))
      break_graph("CD0400", "requires_grad_() of a view with gaps");
  note_possible_alias(ex, view, copy, "CD0400", current_root_step(ex),
                      "requires_grad_() of a view that is written to, or compared by identity");
  capture.objects.erase(view);
  capture.objects[copy] = self;
  tensor.rebind(copy);
}

bool depends_on_input(Executor& ex, const graph::Value* value) {
  return std::ranges::any_of(tensor_capture(ex).inputs, [&](const auto& input) {
    return input->array->requires_grad() && depends_on(ex, value, input->array->value());
  });
}

bool is_output(Executor& ex, const graph::Value* value) {
  const auto& outputs = ex.graph().outputs;
  return std::ranges::find(outputs, value) != outputs.end();
}

// nn.Parameter(data, requires_grad=True): another tensor on the memory of `data`.
ValuePtr make_parameter(Executor& ex, PyObject* callable, const CallArgs& args) {
  const std::vector<ValuePtr> given = bind_arguments(ex, "Parameter", args, {"data?", "requires_grad?"});
  auto* data = dynamic_cast<TensorValue*>(given[0].get());
  PyObject* wanted = given[1] ? constant_object(given[1]) : Py_True;
  TensorCapture& capture = torch_capture(ex);
  if (!data || (wanted != Py_True && wanted != Py_False) || !ex.state().request.is_native)
    break_graph("CD0400", "nn.Parameter");
  return recorded_call(ex, "call_function", PyRef::borrow(callable), args, [&]() -> ValuePtr {
    // What it is made of is not seen any more as a rule: a value of its own has no history to be told apart from.
    if (!has_storage_of_its_own(capture, data->value()) || data->requires_grad() || data->source)
      break_graph("CD0400", "nn.Parameter of a tensor that has not been made for it");
    graph::Value* content = append_call1(ex, "detach", {data->value()});
    auto parameter = std::make_shared<TensorValue>(content, parameter_type());
    capture.objects[content] = parameter;
    capture.base_of.erase(content);
    capture.cut.erase(content);
    if (wanted == Py_True) made_leaf(ex, parameter);
    return parameter;
  });
}

constexpr SpecialRow kMadeLeafRows[] = {{"torch.nn.Parameter", make_parameter}};

}  // namespace

ValuePtr made_leaf(Executor& ex, const ValuePtr& tensor) {
  auto* array = dynamic_cast<TensorValue*>(tensor.get());
  TensorCapture& capture = torch_capture(ex);
  if (!array || array->requires_grad() || !ex.state().request.is_native || ex.isolated_region())
    break_graph("CD0400", kRequiresGrad);
  graph::Value* value = array->value();
  // Eager raises an error.
  if (!runtime::is_float(value->type.dtype) || is_inference_value(capture, value))
    break_graph("CD0400", kRequiresGrad);
  recorded_call(ex, "call_method", PyRef::borrow(interned("requires_grad_")), positional({tensor}),
                [&]() -> ValuePtr {
                  graph::Value* content = append_call1(ex, "detach", {value});
                  if (!has_storage_of_its_own(capture, value))
                    take_storage_of_its_own(ex, *array, tensor, content);
                  value = array->value();
                  capture.made_leaves[value] = content;
                  value->requires_grad = true;
                  return tensor;
                });
  return tensor;
}

ValuePtr no_leaf_any_more(Executor& ex, const ValuePtr& tensor) {
  TensorCapture& capture = tensor_capture(ex);
  graph::Value* value = static_cast<TensorValue&>(*tensor).value();
  const bool has_recipe = is_output(ex, capture.made_leaves.at(value));
  if (has_recipe || ex.isolated_region() || is_read_by_backward(ex, value) ||
      capture.leaf_gradients.contains(value))
    break_graph("CD0400", "requires_grad_(False)");
  value->requires_grad = false;
  capture.made_leaves.erase(value);
  return tensor;
}

std::optional<CallArgs> without_requires_grad(Executor& ex, PyObject* callable, const CallArgs& args) {
  if (callable == reinterpret_cast<PyObject*>(parameter_type())) return std::nullopt;
  for (size_t i = 0; i < args.keywords.size(); ++i) {
    if (PyUnicode_CompareWithASCIIString(args.keywords[i].name.get(), "requires_grad") != 0) continue;
    if (constant_object(args.keywords[i].value) != Py_True) return std::nullopt;
    CallArgs rest = args;
    rest.keywords.erase(rest.keywords.begin() + static_cast<ptrdiff_t>(i));
    return rest;
  }
  return std::nullopt;
}

void check_made_leaves(Executor& ex) {
  TensorCapture& capture = tensor_capture(ex);
  for (const auto& [leaf, content] : capture.made_leaves) {
    const auto is_computed_of = [&](const graph::Value* output) { return depends_on(ex, output, leaf); };
    const auto has_gradient = [&](const graph::Value* output) {
      return output->requires_grad && is_computed_of(output);
    };
    if (is_output(ex, content) && (std::ranges::any_of(ex.graph().outputs, has_gradient) ||
                                   std::ranges::any_of(capture.outputs_of_leaves, is_computed_of)))
      break_graph("CD0400", "a tensor that is made to require grad, and leaves with what was computed of it");
  }
  for (graph::Value* output : capture.outputs_of_leaves) {
    if (depends_on_input(ex, output)) break_graph("CD0400", kRequiresGrad);
    output->requires_grad = false;  // to the graph; its history is made when that has run
  }
}

graph::Value* TensorValue::output(Executor& ex) {
  refuse_retained(ex, value());
  const TensorCapture& capture = tensor_capture(ex);
  const auto leaf = capture.made_leaves.find(value());
  return leaf == capture.made_leaves.end() ? value() : leaf->second;
}

RecipePtr TensorValue::made_of_output(Executor& ex, RecipePtr output) {
  TensorCapture& capture = tensor_capture(ex);
  const bool is_leaf = capture.made_leaves.contains(value());
  PyObject* plain = reinterpret_cast<PyObject*>(torch_access::tensor_type());
  if (type() == parameter_type()) {
    output->object = ConstantRef::to(plain);
    return call_recipe(reinterpret_cast<PyObject*>(type()),
                       {output, make_recipe(RecipeKind::kConstant, is_leaf ? Py_True : Py_False)});
  }
  if (is_leaf) {
    static PyObject* method = nullptr;
    if (!method) method = PyObject_GetAttrString(plain, "requires_grad_");
    return call_recipe(method, {output});
  }
  if (is_inference_value(capture, value()))
    return call_recipe(python_side(PythonSide::kInferenceTensor), {output});
  if (capture.made_leaves.empty() || !requires_grad()) return output;
  if (capture.cut.contains(value())) {
    // It requires grad as what it is a view of does, and has no history.
    if (base_of(capture, value())->node) break_graph("CD0400", "a view without a history");
    return output;
  }
  if (depends_on_input(ex, value())) return output;
  capture.outputs_of_leaves.push_back(value());
  return call_recipe(python_side(PythonSide::kHistoryOfLeaves), {output});
}

std::span<const SpecialRow> made_leaf_functions() { return kMadeLeafRows; }

}  // namespace cdynamo::symbolic
