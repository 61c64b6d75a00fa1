// The hooks through which the executor asks for the frameworks' kinds of values: see hooks.h.
#include "symbolic/capture/value_factories.h"
#include "symbolic/capture/value_tools.h"
#include "symbolic/numpy/numpy_values.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/library_call.h"
#include "symbolic/torch/size.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/constant.h"

namespace cdynamo::symbolic {
namespace {

// torch.float32, torch.device("cpu"), torch.strided, torch.channels_last, torch.finfo(...): C objects without
// state.
bool is_torch_constant(PyObject* object) {
  static const char* const kTypes[] = {"dtype", "layout", "memory_format", "finfo", "iinfo", "qscheme"};
  for (const char* name : kTypes)
    if (reinterpret_cast<PyObject*>(Py_TYPE(object)) == library_object("torch", name)) return true;
  return false;
}

ValuePtr wrap_torch_object(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (is_torch_constant(object)) {
    add_guard(ex, GuardKind::kIdentity, source, object);
    return std::make_shared<ConstantValue>(PyRef::borrow(object), source);
  }
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) == library_object("torch", "device")) {
    add_guard(ex, GuardKind::kEquals, source, object);
    return std::make_shared<ConstantValue>(PyRef::borrow(object), source);
  }
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) == library_object("torch", "Size")) {
    add_guard(ex, GuardKind::kEquals, source, object);
    std::vector<ValuePtr> items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      items.push_back(ex.constant(PyRef::borrow(PyTuple_GET_ITEM(object, i))));
    return std::make_shared<SizeValue>(std::move(items));
  }
  return nullptr;
}

}  // namespace

ValuePtr wrap_tensor(Executor& ex, PyObject* object, SourcePtr source) {
  switch (tensor_kind(object)) {
    case TensorKind::kTorch: return wrap_torch_tensor(ex, object, source);
    case TensorKind::kNumpy: return wrap_numpy_array(ex, object, source);
    case TensorKind::kNone: break;
  }
  if (torch_is_loaded())
    if (ValuePtr value = wrap_torch_object(ex, object, source)) return value;
  return wrap_numpy_object(ex, object, source);
}

ValuePtr wrap_framework_callable(Executor& ex, PyObject* object, SourcePtr source) {
  if (torch_is_loaded()) {
    SpecialFunction special = find_special_function(object);
    OperatorCallable op = special ? OperatorCallable{} : find_torch_operator(object);
    const char* polyfill = special || op.op ? nullptr : find_torch_polyfill(object);
    if (special || op.op || polyfill || may_be_library_operator(object)) {
      add_guard(ex, GuardKind::kIdentity, source, object);
      return std::make_shared<TorchCallable>(PyRef::borrow(object), op, special, polyfill, source);
    }
  }
  return wrap_numpy_callable(ex, object, source);
}

}  // namespace cdynamo::symbolic
