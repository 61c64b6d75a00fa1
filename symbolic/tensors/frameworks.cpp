#include "symbolic/tensors/frameworks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::DType;
using graph::Framework;
using graph::Sym;
using graph::Value;

namespace {

ArrayValue* array_value(const ValuePtr& value) { return dynamic_cast<ArrayValue*>(value.get()); }

// In the words and the order of torch/csrc/utils/tensor_numpy.cpp.
void require_numpy_form(Executor& ex, const ArrayValue& tensor, bool force) {
  const graph::TensorType& type = tensor.array_type();
  if (!force && !(type.device == graph::Device{})) {
    const PyRef device = checked(PyObject_Str(torch_device_object(type.device).get()));
    raise_error(
        ex, PyExc_TypeError,
        absl::StrCat(
            "can't convert ", PyUnicode_AsUTF8(device.get()),
            " device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."));
  }
  if (!force && tensor_capture(ex).grad_mode && tensor.requires_grad())
    raise_error(ex, PyExc_RuntimeError,
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
  if (!(type.device == graph::Device{})) break_graph("CD0409", "numpy(force=True) of a GPU's tensor");
  if (type.dtype == DType::kBF16) raise_error(ex, PyExc_TypeError, "Got unsupported ScalarType BFloat16");
}

// Under cdynamo.grad a derivative would be left out without a word.
void note_shared(Executor& ex, const Value* value) {
  if (ex.state().branches) break_graph("CD0418", "a tensor of an array, or the other way");
  TensorCapture& capture = tensor_capture(ex);
  capture.shared.insert(base_of(capture, value));
}

bool is_writeable(const TensorCapture& capture, const Value* value) {
  const auto input = capture.storage_of.find(value);
  return !is_read_only_view(value) &&
         (input == capture.storage_of.end() || capture.inputs[input->second]->info.writeable);
}

void require_tensor_form(Executor& ex, const Value* array) {
  if (!is_writeable(tensor_capture(ex), array))
    break_graph("CD0409", "a tensor of a read-only array, of which PyTorch warns");
  for (const Sym& stride : array->type.strides)
    if (!ex.graph().sym->guard(graph::Relation::kLe, 0, stride, "a stride"))
      break_graph("CD0409", "a tensor of an array with negative strides");
}

bool is_empty(const graph::TensorType& type) {
  return std::ranges::find(type.sizes, Sym(int64_t{0})) != type.sizes.end();
}

// As NumPy has them of an array without items that is made of a tensor, or by itself.
void zero_strides_if_empty(graph::TensorType& type) {
  if (is_empty(type)) std::ranges::fill(type.strides, Sym(int64_t{0}));
}

}  // namespace

bool is_tensor(const ValuePtr& value) {
  const ArrayValue* array = array_value(value);
  return array && array->framework() == Framework::kTorch;
}

bool is_numpy_array(const ValuePtr& value) {
  const ArrayValue* array = array_value(value);
  return array && array->framework() == Framework::kNumpy && !array->is_scalar();
}

ValuePtr array_of_tensor(Executor& ex, const ValuePtr& tensor, bool force) {
  const ArrayValue& self = *array_value(tensor);
  require_numpy_form(ex, self, force);
  CallArgs args = positional({tensor});
  if (force)
    args.keywords.push_back({PyRef::borrow(interned("force")), make_constant(ex, PyRef::borrow(Py_True))});
  note_shared(ex, self.value());
  use_framework(ex, Framework::kNumpy);
  const FrameworkRules rules(ex, Framework::kTorch);
  return recorded_call(ex, "call_method", PyRef::borrow(interned("numpy")), args, [&] {
    Value* shared = append_call1(ex, "data", {self.value()});
    shared->type.weak = false;
    zero_strides_if_empty(shared->type);
    return numpy_array_value(ex, shared);
  });
}

ValuePtr tensor_of_array(Executor& ex, const ValuePtr& array) {
  const ArrayValue& self = *array_value(array);
  require_tensor_form(ex, self.value());
  note_shared(ex, self.value());
  const FrameworkRules rules(ex, Framework::kTorch);
  return recorded_call(ex, "call_function", PyRef::borrow(library_object("torch", "from_numpy")),
                       positional({array}), [&] {
                         Value* shared = append_call1(ex, "from_numpy", {self.value()});
                         const Value* base = base_of(tensor_capture(ex), self.value());
                         // Its strides are NumPy's, which a graph's result has not.
                         if (base->node && is_empty(base->type))
                           break_graph("CD0409", "an array without elements");
                         return make_tensor(ex, shared);
                       });
}

bool holds_tensor(Executor& ex, const CallArgs& args) {
  if (!tensor_capture(ex).uses_torch) return false;
  bool found = false;
  const auto look = [&](const ValuePtr& value) {
    found |= is_tensor(value);
    return value;
  };
  for (const ValuePtr& value : args.positional) map_leaves(ex, value, look);
  for (const Keyword& keyword : args.keywords) map_leaves(ex, keyword.value, look);
  return found;
}

CallArgs with_arrays(Executor& ex, const CallArgs& args) {
  CallArgs mapped = args;
  if (!tensor_capture(ex).uses_torch) return mapped;
  const auto convert = [&](const ValuePtr& value) {
    return is_tensor(value) ? array_of_tensor(ex, value) : value;
  };
  for (ValuePtr& value : mapped.positional) value = map_leaves(ex, value, convert);
  for (Keyword& keyword : mapped.keywords) keyword.value = map_leaves(ex, keyword.value, convert);
  return mapped;
}

bool is_numpy_number(const ValuePtr& value) {
  if (const ArrayValue* array = array_value(value)) return array->is_scalar();
  const numpy_access::Api* api = numpy_access::api();
  return api && PyType_IsSubtype(value->type(), api->generic_type);
}

ValuePtr without_numpy_scalar(Executor& ex, const ValuePtr& value) {
  if (array_value(value)) return value;
  if (ValuePtr index = value->as_index(ex)) return index;
  if (!is_numpy_number(value)) return value;
  const ValuePtr item = call_method(ex, value, "item");
  return item->type() == &PyBool_Type ? value : item;  // PyTorch takes numpy.bool for a float
}

Value* number_of_scalar(Executor& ex, const ArrayValue& scalar) {
  const DType dtype = scalar.array_type().dtype;
  if (dtype == DType::kBool) break_graph("CD0409", "numpy.bool beside a tensor");
  const DType wide = runtime::is_float(dtype) ? DType::kF64 : DType::kI64;
  Value* number = dtype == wide ? append_call1(ex, "clone", {scalar.value()})
                                : append_call1(ex, "core.cast", {scalar.value(), wide});
  number->type.weak = true;
  return number;
}

}  // namespace cdynamo::symbolic
