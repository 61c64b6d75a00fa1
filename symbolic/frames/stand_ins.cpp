// Real objects that stand for values in the namespaces of classes that captured code makes.
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/functions.h"
#include "symbolic/frames/made_classes.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

[[noreturn]] void refuse(const ValuePtr& value) { break_graph("CD0008", "with " + value->describe()); }

void set_attribute(const PyRef& object, PyObject* name, const PyRef& value) {
  if (PyObject_SetAttr(object.get(), name, value.get()) < 0) throw PythonError{};
}

}  // namespace

PyRef StandIns::of(const std::vector<ValuePtr>& values) {
  PyRef tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; i < values.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), of(values[i]).release());
  return tuple;
}

PyRef StandIns::of(const std::vector<Keyword>& keywords) {
  PyRef made = checked(PyDict_New());
  for (const Keyword& keyword : keywords)
    if (PyDict_SetItem(made.get(), keyword.name.get(), of(keyword.value).get()) < 0) throw PythonError{};
  return made;
}

PyRef StandIns::of(const ValuePtr& value) {
  if (std::optional<PyRef> constant = value->as_constant()) return *constant;
  const bool is_known = value->source && value->source->kind == SourceKind::kConstant;
  if (value->real_object() && (is_known || dynamic_cast<ClassValue*>(value.get())))
    return PyRef::borrow(value->real_object());
  Executor::State::MadeClasses& made = ex_.state().made_classes;
  if (auto known = made.stand_ins.find(value); known != made.stand_ins.end()) return known->second;
  if (auto* definition = dynamic_cast<DefinitionValue*>(value.get())) {
    PyRef object = definition->make(ex_, *this);
    made.own.insert(object.get());
    made.stand_ins.emplace(value, object);
    return object;
  }
  PyRef object = dynamic_cast<FunctionValue*>(value.get()) ? function(value)
                 : dynamic_cast<CellValue*>(value.get())   ? checked(PyCell_New(nullptr))
                                                           : placeholder(value);
  made.values.emplace(object.get(), value);
  made.stand_ins.emplace(value, object);
  return object;
}

// An object without content. One that a class asks to read or to set its attributes is of the type that does so.
PyRef StandIns::placeholder(const ValuePtr& value) {
  faithful_ = false;
  PyTypeObject* type = value->type();
  const bool is_bound = type == &PyMethod_Type || type == &PyCFunction_Type;  // and stays so
  const bool is_descriptor = !is_bound && (type->tp_descr_get || type->tp_descr_set);
  if (!is_descriptor) return checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  const bool is_plain = dynamic_cast<UserObjectValue*>(value.get()) &&
                        builtin_base(type) == &PyBaseObject_Type && !lookup_special(ex_, value, "__del__");
  if (!is_plain) refuse(value);
  const PyRef no_arguments = checked(PyTuple_New(0));
  return checked(PyBaseObject_Type.tp_new(type, no_arguments.get(), nullptr));
}

PyRef StandIns::dict(const ValuePtr& value) {
  PyRef made = checked(PyDict_New());
  std::vector<ValuePtr> items;
  if (DictValue* pairs = dict_in(value))
    for (const DictValue::Entry& entry : pairs->entries(ex_))
      items.insert(items.end(), {entry.key, entry.value});
  else
    items = items_of(ex_, value);
  for (size_t i = 0; i + 1 < items.size(); i += 2)
    if (PyDict_SetItem(made.get(), of(items[i]).get(), of(items[i + 1]).get()) < 0) throw PythonError{};
  return made;
}

// A function with the same code, so that its signature is the same.
PyRef StandIns::function(const ValuePtr& value) {
  auto& function = static_cast<FunctionValue&>(*value);
  PyRef made = checked(PyFunction_New(reinterpret_cast<PyObject*>(function.code()), function.globals()));
  const std::vector<ValuePtr> cells = function.closure(ex_);
  closures_ |= !cells.empty();
  if (!cells.empty() && PyFunction_SetClosure(made.get(), of(cells).get()) < 0) throw PythonError{};
  for (const char* name : {"__defaults__", "__kwdefaults__"}) {
    const ValuePtr part = function.get_attribute(ex_, interned(name));
    if (dict_in(part))
      set_attribute(made, interned(name), dict(part));
    else if (!is_none(part))
      set_attribute(made, interned(name), of(items_of(ex_, part)));
  }
  if (function.annotations) set_attribute(made, interned("__annotations__"), dict(function.annotations));
  for (const char* name : {"__name__", "__qualname__", "__module__", "__doc__"})
    set_attribute(made, interned(name), of(function.get_attribute(ex_, interned(name))));
  for (const PyRef& name : function.own_names(ex_))
    set_attribute(made, name.get(), of(function.get_attribute(ex_, name.get())));
  return made;
}

}  // namespace cdynamo::symbolic
