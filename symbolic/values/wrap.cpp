// Which kind stands for a live object.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/proxied_mapping.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/context_var.h"
#include "symbolic/values/decimal_context.h"
#include "symbolic/values/deque.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/enum_member.h"
#include "symbolic/values/list.h"
#include "symbolic/values/live_iterator.h"
#include "symbolic/values/module_value.h"
#include "symbolic/values/partial.h"
#include "symbolic/values/random_generator.h"
#include "symbolic/values/range.h"
#include "symbolic/values/set.h"
#include "symbolic/values/slice.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_proxy.h"

namespace cdynamo::symbolic {

namespace {

// Objects of C that never change: functions, descriptors, code. Guarded by identity.
bool is_constant_object(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type ||
         type == &PyMemberDescr_Type || type == &PyClassMethodDescr_Type || type == &PyProperty_Type ||
         type == &PyStaticMethod_Type || type == &PyClassMethod_Type || PyCode_Check(object) ||
         PyCapsule_CheckExact(object);
}

// A C method bound to an object: `items.append`, `"abc".__len__`. It is taken apart, as it is new each time
// it is read.
bool is_bound_to_object(PyObject* object) {
  if (std::strcmp(Py_TYPE(object)->tp_name, "method-wrapper") == 0) return true;
  PyObject* self = PyCFunction_Check(object) ? PyCFunction_GET_SELF(object) : nullptr;
  if (!self || PyModule_Check(self) || PyType_Check(self)) return false;
  // A function of pybind11's has a record of itself there.
  const char* name = reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name;
  return _PyType_Lookup(Py_TYPE(self), interned(name)) != nullptr;
}

// Null where the method is not captured: an object whose call is Python's.
ValuePtr wrap_bound_method(Executor& ex, PyObject* object, const SourcePtr& source) {
  PyRef self = checked(PyObject_GetAttrString(object, "__self__"));
  PyRef name = checked(PyObject_GetAttrString(object, "__name__"));
  // int.__call__: of a class's metaclass, where looking it up in the class gives another such object, or another method.
  if (PyType_Check(self.get())) return nullptr;
  // What the class has under the name may be another one, that of a class before the method's in the MRO.
  PyObject* found = _PyType_Lookup(Py_TYPE(self.get()), name.get());
  if (found && PyFunction_Check(found)) return nullptr;
  guard_exact_type(ex, object, source);
  bool known = source->kind == SourceKind::kConstant;
  auto part = [&](const PyRef& value, const char* attribute) {
    return ex.wrap(value.get(),
                   known ? constant_source(value.get()) : attribute_source(source, interned(attribute)));
  };
  part(name, "__name__");
  ValuePtr owner = part(self, "__self__");
  try {
    ValuePtr method = owner->get_attribute(ex, name.get());
    if (dynamic_cast<BuiltinMethodValue*>(method.get())) method->source = source;
    return method;
  } catch (const GraphBreak&) {
    return nullptr;
  }
}

// An enum of pybind11's: its hash and what it equals are its number's.
bool is_enum_of_pybind(PyTypeObject* type) {
  return std::string_view(Py_TYPE(type)->tp_name).ends_with("pybind11_type") &&
         own_type_entry(type, interned("__entries"));
}

// Times are made anew in each call: as an argument, of a resumed function too, one is known by its type alone.
bool is_time_argument(PyObject* object, const Source& source) {
  constexpr std::string_view kTypes[] = {"datetime.timedelta", "datetime.date", "datetime.datetime",
                                         "datetime.time", "datetime.timezone"};
  return source.kind == SourceKind::kArgument &&
         std::ranges::find(kTypes, Py_TYPE(object)->tp_name) != std::end(kTypes);
}

ValuePtr identity_constant(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (source->kind != SourceKind::kConstant) add_guard(ex, GuardKind::kIdentity, source, object);
  meet_decimal(ex, Py_TYPE(object));
  return std::make_shared<ConstantValue>(PyRef::borrow(object), source);
}

// A slice or range that came in is new in each call: guarded by its numbers.
ValuePtr wrap_slice(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (source->kind == SourceKind::kConstant) {
    ValuePtr known = ex.constant(PyRef::borrow(object));
    known->source = source;  // what leads to it otherwise is guarded by its identity
    return known;
  }
  guard_exact_type(ex, object, source);
  auto part = [&](const char* name) {
    PyRef value = checked(PyObject_GetAttrString(object, name));
    return ex.wrap(value.get(), attribute_source(source, interned(name)));
  };
  ValuePtr start = part("start"), stop = part("stop"), step = part("step");
  CallArgs args;
  args.positional = {start, stop, step};
  ValuePtr value = PySlice_Check(object) ? make_slice(ex, start, stop, step) : make_range(ex, args);
  value->source = source;
  return value;
}

// What a known inspect.Signature holds: it never changes.
bool is_of_signature(const SourcePtr& source) {
  if (!source->base || source->base->kind != SourceKind::kConstant) return false;
  PyObject* owner = source->base->object.get();
  return owner && reinterpret_cast<PyObject*>(Py_TYPE(owner)) == library_object("inspect", "Signature");
}

// Not the namespace of a class, whose names are looked up, guarded and written by way of the class.
bool is_plain_dict(PyObject* mapping) {
  if (!PyDict_CheckExact(mapping) && !PyODict_CheckExact(mapping)) return false;
  const auto has = [&](const char* name) { return PyDict_GetItemString(mapping, name) != nullptr; };
  return !has("__doc__") && !has("__module__");
}

ValuePtr wrap_container(Executor& ex, PyObject* object, const SourcePtr& source) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyTuple_Type) {
    guard_exact_type(ex, object, source);
    auto tuple = std::make_shared<TupleValue>(PyRef::borrow(object), source);
    if (PyTuple_GET_SIZE(object) == 0) tuple->size(ex);  // guarded, as no item will
    return tuple;
  }
  if (type == &PyList_Type) {
    guard_exact_type(ex, object, source);
    return std::make_shared<ListValue>(PyRef::borrow(object), source);
  }
  if (type == &PyDict_Type || type == ordered_dict_type() || type == default_dict_type()) {
    guard_exact_type(ex, object, source);
    if (type == default_dict_type()) return storage_of_object(ex, object, source);
    return std::make_shared<DictValue>(PyRef::borrow(object), source, type);
  }
  if (type == deque_type()) {
    guard_exact_type(ex, object, source);
    return std::make_shared<DequeValue>(object, source);
  }
  if (type == &PySet_Type || type == &PyFrozenSet_Type) {
    guard_exact_type(ex, object, source);
    return std::make_shared<SetValue>(ex, object, source, type);
  }
  if (type == &PyDictProxy_Type && is_of_signature(source)) {
    PyRef shown = checked(PyObject_CallMethod(object, "copy", nullptr));
    return std::make_shared<MappingProxyValue>(ex.wrap(shown.get(), constant_source(shown.get())));
  }
  if (type == &PyDictProxy_Type) {
    const PyRef shown = proxied_mapping(object);
    if (!is_plain_dict(shown.get())) return nullptr;
    guard_exact_type(ex, object, source);
    return std::make_shared<MappingProxyValue>(
        ex.wrap(shown.get(), derived_source(SourceKind::kProxied, source)), source);
  }
  if (PySlice_Check(object) || PyRange_Check(object)) return wrap_slice(ex, object, source);
  return nullptr;
}

}  // namespace

namespace {

// What optimize() gave, called by what is captured: the function that it was made of. Null for other objects.
ValuePtr wrap_optimized(Executor& ex, PyObject* object, const SourcePtr& source) {
  static PyObject* type = nullptr;
  if (!type) type = library_object("cdynamo._C", "OptimizedFunction");  // imports: not in an initializer
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != type) return nullptr;
  PyRef wrapped = checked(PyObject_GetAttr(object, interned("__wrapped__")));
  add_guard(ex, GuardKind::kType, source, type);
  return ex.wrap(wrapped.get(), attribute_source(source, interned("__wrapped__")));
}

}  // namespace

ValuePtr wrap_python_object(Executor& ex, PyObject* object, SourcePtr from) {
  if (!from) return wrap_fresh(ex, PyRef::borrow(object));
  const SourcePtr& source = from;
  if (ValuePtr value = wrap_weak_proxy(ex, object, source)) return value;
  if (ValuePtr value = wrap_optimized(ex, object, source)) return value;
  if (ValuePtr value = wrap_constant(ex, object, source)) return value;
  if (ValuePtr value = wrap_container(ex, object, source)) return value;
  if (PyType_Check(object)) return make_class(ex, object, source);
  PyObject* getattribute =
      PyModule_Check(object) ? _PyType_Lookup(Py_TYPE(object), interned("__getattribute__")) : nullptr;
  if (getattribute && !PyFunction_Check(getattribute)) {
    if (source->kind != SourceKind::kConstant) add_guard(ex, GuardKind::kIdentity, source, object);
    return std::make_shared<ModuleValue>(PyRef::borrow(object), source);
  }
  if (is_bound_to_object(object)) {
    ValuePtr method = wrap_bound_method(ex, object, source);
    return method ? method : UserObjectValue::wrap(ex, object, source);
  }
  if (PyCFunction_Check(object) || is_constant_object(object)) return identity_constant(ex, object, source);
  if (is_enum_of_pybind(Py_TYPE(object))) return identity_constant(ex, object, source);
  if (is_enum_class(Py_TYPE(object))) {
    if (source->kind != SourceKind::kConstant) add_guard(ex, GuardKind::kIdentity, source, object);
    return std::make_shared<EnumMemberValue>(PyRef::borrow(object), source);
  }
  if (ValuePtr value = wrap_partial(ex, object, source)) return value;
  if (ValuePtr value = wrap_context_var(ex, object, source)) return value;
  if (ValuePtr value = wrap_random_generator(ex, object, source)) return value;
  if (ValuePtr value = wrap_iterator(ex, object, source)) return value;
  if (is_pure_c_object(object) && !is_time_argument(object, *source))
    return identity_constant(ex, object, source);
  return UserObjectValue::wrap(ex, object, source);
}

}  // namespace cdynamo::symbolic
