// Values for torch's objects: what capture asks for (capture/value_factories.h).
#include <utility>

#include "symbolic/capture/value_factories.h"
#include "symbolic/tensors/torch_generator.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/library_call.h"
#include "symbolic/torch/return_type.h"
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
    const bool known = source->kind == SourceKind::kConstant;
    if (!known) {
      guard_exact_type(ex, object, source);
      add_guard(ex, GuardKind::kLength, source, nullptr, PyTuple_GET_SIZE(object));
    }
    std::vector<ValuePtr> items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      PyObject* size = PyTuple_GET_ITEM(object, i);
      items.push_back(ex.wrap(size, known ? constant_source(size) : index_source(source, i)));
    }
    return std::make_shared<SizeValue>(std::move(items));
  }
  return wrap_torch_generator(ex, object, source);
}

namespace {

// The descriptor that a class method of C's was bound by (Function.apply, from torch 2.14 on); borrowed, null for others.
PyObject* class_method_descriptor(PyObject* object) {
  PyObject* self = PyCFunction_Check(object) ? PyCFunction_GET_SELF(object) : nullptr;
  if (!self || !PyType_Check(self)) return nullptr;
  const PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(object)->m_ml;
  PyObject* found = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(self), interned(method->ml_name));
  const bool is_bound_by = found && Py_IS_TYPE(found, &PyClassMethodDescr_Type) &&
                           reinterpret_cast<PyMethodDescrObject*>(found)->d_method == method;
  return is_bound_by ? found : nullptr;
}

// With a rule: called as a class method in Python is, with the class as the first argument.
ValuePtr wrap_class_method(Executor& ex, PyObject* object, const SourcePtr& source) {
  PyObject* descriptor = class_method_descriptor(object);
  SpecialFunction special = descriptor ? find_special_function(descriptor) : nullptr;
  if (!special) return nullptr;
  if (source->kind != SourceKind::kConstant) add_guard(ex, GuardKind::kIdentity, source, object);
  PyObject* cls = PyCFunction_GET_SELF(object);
  auto rule = std::make_shared<TorchCallable>(PyRef::borrow(descriptor), OperatorCallable{}, special, nullptr,
                                              constant_source(descriptor));
  return make_bound_method(ex, std::move(rule), ex.wrap(cls, constant_source(cls)));
}

// torch.return_types.sort((values, indices))
ValuePtr return_type_of(Executor& ex, PyObject* cls, const CallArgs& args) {
  const PyRef count = checked(PyObject_GetAttrString(cls, "n_sequence_fields"));
  std::vector<ValuePtr> items;
  if (args.positional.size() == 1 && args.keywords.empty()) items = items_of(ex, args.positional[0]);
  if (items.size() != PyLong_AsSize_t(count.get()))
    break_graph("CD0403", reinterpret_cast<PyTypeObject*>(cls)->tp_name);
  return std::make_shared<ReturnTypeValue>(reinterpret_cast<PyTypeObject*>(cls), std::move(items));
}

bool is_return_type(PyObject* object) {
  return PyType_Check(object) && std::string_view(reinterpret_cast<PyTypeObject*>(object)->tp_name)
                                     .starts_with("torch.return_types.");
}

}  // namespace

ValuePtr wrap_torch_callable(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (ValuePtr method = wrap_class_method(ex, object, source)) return method;
  SpecialFunction special = is_return_type(object) ? return_type_of : find_special_function(object);
  OperatorCallable op = special ? OperatorCallable{} : find_torch_operator(object);
  const char* polyfill = special || op.op ? nullptr : find_torch_polyfill(object);
  if (!special && !op.op && !polyfill && !may_be_library_operator(object)) return nullptr;
  add_guard(ex, GuardKind::kIdentity, source, object);
  return std::make_shared<TorchCallable>(PyRef::borrow(object), op, special, polyfill, source);
}

ValuePtr torch_method_rule(Executor& ex, PyObject* self, PyObject* descriptor) {
  if (!torch_is_loaded() || reinterpret_cast<PyObject*>(Py_TYPE(self)) != library_object("torch", "device"))
    return nullptr;
  return find_special_function(descriptor) ? ex.wrap(descriptor, constant_source(descriptor)) : nullptr;
}

}  // namespace cdynamo::symbolic
