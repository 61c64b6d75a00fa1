// copy.copy and copy.deepcopy of tensors and arrays.
#include <algorithm>

#include "graph/strides.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/tensors/array_value.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// Attributes of its own are copied with it.
bool has_attributes(const ArrayValue& array) {
  PyObject* object = array.real_object();
  PyObject** dict = object ? _PyObject_GetDictPtr(object) : nullptr;
  return dict && *dict && PyDict_GET_SIZE(*dict) > 0;
}

// Two that came in share no memory, in this call and, by a guard, in all others.
bool are_apart(Executor& ex, const graph::Value* one, const graph::Value* other) {
  const TensorCapture& capture = tensor_capture(ex);
  const ArrayInput& a = *capture.inputs[capture.storage_of.at(one)];
  const ArrayInput& b = *capture.inputs[capture.storage_of.at(other)];
  if (a.info.begin < b.info.end && b.info.begin < a.info.end) return false;
  ex.guard({.kind = GuardKind::kDistinctTensors, .source = a.source});
  return true;
}

// Tensor.__deepcopy__ keeps the strides, whatever they are, and what shares a storage shares its copy.
ValuePtr deep_copy_of_tensor(Executor& ex, const ValuePtr& value, std::vector<ValuePtr>& others) {
  if (!graph::is_non_overlapping_and_dense(*ex.graph().sym, dynamic_cast<ArrayValue&>(*value).array_type()))
    return nullptr;
  const TensorCapture& capture = tensor_capture(ex);
  const auto came_in = [&](const ValuePtr& tensor) {
    return capture.storage_of.contains(dynamic_cast<ArrayValue&>(*tensor).value());
  };
  const auto base = [&](const ValuePtr& tensor) {
    return base_of(capture, dynamic_cast<ArrayValue&>(*tensor).value());
  };
  for (const ValuePtr& other : others) {
    if (base(other) == base(value)) return nullptr;
    if (came_in(other) && came_in(value) && !are_apart(ex, base(other), base(value))) return nullptr;
  }
  others.push_back(value);
  return call_method(ex, call_method(ex, value, "detach"), "clone");
}

}  // namespace

ValuePtr copy_of_array(Executor& ex, const ValuePtr& value, bool deep, std::vector<ValuePtr>& others) {
  auto* array = dynamic_cast<ArrayValue*>(value.get());
  if (!array) return nullptr;
  if (const numpy_access::Api* numpy = numpy_is_loaded() ? numpy_access::api() : nullptr) {
    if (PyType_IsSubtype(value->type(), numpy->generic_type)) return value;
    if (value->type() == numpy->array_type)
      return value->get_attribute(ex, interned("copy"))
          ->call(ex, {{}, {{PyRef::borrow(interned("order")), ex.constant(PyRef::borrow(interned("K")))}}});
  }
  // What requires grad becomes a leaf, or is refused.
  if (std::string_view(value->type()->tp_name) != "Tensor" || array->requires_grad() ||
      has_attributes(*array))
    return nullptr;
  return deep ? deep_copy_of_tensor(ex, value, others) : call_method(ex, value, "detach");
}

}  // namespace cdynamo::symbolic
