// Values for torch's objects: what capture asks for (capture/value_factories.h).
#include "symbolic/capture/value_factories.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/library_call.h"
#include "symbolic/torch/size.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/value_tools.h"

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

}  // namespace

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

ValuePtr wrap_torch_callable(Executor& ex, PyObject* object, const SourcePtr& source) {
  SpecialFunction special = find_special_function(object);
  OperatorCallable op = special ? OperatorCallable{} : find_torch_operator(object);
  const char* polyfill = special || op.op ? nullptr : find_torch_polyfill(object);
  if (!special && !op.op && !polyfill && !may_be_library_operator(object)) return nullptr;
  add_guard(ex, GuardKind::kIdentity, source, object);
  return std::make_shared<TorchCallable>(PyRef::borrow(object), op, special, polyfill, source);
}

}  // namespace cdynamo::symbolic
