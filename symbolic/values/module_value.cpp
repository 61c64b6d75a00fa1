#include "symbolic/values/module_value.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {
// Nothing is looked up by a __getattr__ of the module's.
std::optional<std::string> text_attribute(PyObject* module, const char* name) {
  PyObject* own = PyDict_GetItemString(PyModule_GetDict(module), name);
  const PyRef found = own || PyModule_CheckExact(module) ? PyRef::borrow(own)
                                                         : PyRef::steal(PyObject_GetAttrString(module, name));
  const char* text = found && PyUnicode_Check(found.get()) ? PyUnicode_AsUTF8(found.get()) : nullptr;
  PyErr_Clear();
  return text ? std::optional<std::string>(text) : std::nullopt;
}

// Of a module without a file: it is built in, or what C has made within a package. Others are the program's.
bool is_part_of_library(PyObject* module) {
  const std::optional<std::string> name = text_attribute(module, "__name__");
  if (!name) return false;
  const PyRef root = checked(PyUnicode_FromString(name->substr(0, name->find('.')).c_str()));
  if (PySequence_Contains(PySys_GetObject("builtin_module_names"), root.get()) == 1) return true;
  PyObject* package = PyDict_GetItemWithError(PyImport_GetModuleDict(), root.get());
  return package && package != module && PyModule_Check(package) && is_library_module(package);
}
}  // namespace

bool is_library_module(PyObject* module) {
  static auto* known = new absl::flat_hash_map<PyObject*, bool>;  // modules that answered are kept alive
  if (auto found = known->find(module); found != known->end()) return found->second;
  const std::optional<std::string> path = text_attribute(module, "__file__");
  const bool library =
      path ? path->find("site-packages") != path->npos || path->find("/lib/python3") != path->npos
           : is_part_of_library(module);
  if (known->try_emplace(module, library).second) Py_INCREF(module);
  return library;
}

std::string ModuleValue::describe() const {
  const char* name = PyModule_GetName(object_.get());
  if (!name) PyErr_Clear();
  return std::string("module ") + (name ? name : "?");
}

namespace {
// A method of C that is bound to an object of the program's, such as a list's append, is state.
bool is_function_of_c(PyObject* object) {
  if (!PyCFunction_Check(object)) return false;
  PyObject* self = PyCFunction_GET_SELF(object);
  return !self || PyModule_Check(self) || PyType_Check(self);
}

// What the functions of warnings assign, and the streams that contextlib.redirect_stdout puts in place of others.
bool is_state(PyObject* namespace_, PyObject* name) {
  static constexpr std::pair<const char*, const char*> kNames[] = {{"warnings", "filters"},
                                                                   {"warnings", "showwarning"},
                                                                   {"warnings", "_showwarnmsg_impl"},
                                                                   {"sys", "stdout"},
                                                                   {"sys", "stderr"}};
  PyObject* own = PyDict_GetItemString(namespace_, "__name__");
  return own && PyUnicode_Check(own) && std::ranges::any_of(kNames, [&](const auto& row) {
           return PyUnicode_CompareWithASCIIString(own, row.first) == 0 &&
                  PyUnicode_CompareWithASCIIString(name, row.second) == 0;
         });
}

// What libraries look at in C, or take for constant, is left to Python; of their state this is not so.
bool takes_assignments(PyObject* module, PyObject* name) {
  if (Py_TYPE(module)->tp_setattro != PyObject_GenericSetAttr || _PyType_Lookup(Py_TYPE(module), name))
    return false;
  return !is_library_module(module) || is_state(PyModule_GetDict(module), name);
}
}  // namespace

bool is_library_definition(PyObject* namespace_, PyObject* name, PyObject* object) {
  return (PyModule_Check(object) || PyFunction_Check(object) || PyType_Check(object) ||
          is_function_of_c(object)) &&
         !is_state(namespace_, name);
}

// module_getattro (Objects/moduleobject.c)
ValuePtr ModuleValue::get_attribute(Executor& ex, PyObject* name) {
  PyObject* dict = PyModule_GetDict(object_.get());
  if (const ValuePtr* assigned = assigned_name(ex, dict, name)) {
    if (*assigned) return *assigned;
    if (PyDict_GetItemString(dict, "__getattr__")) return SymbolicValue::get_attribute(ex, name);
    raise_error(ex, PyExc_AttributeError,
                describe().insert(7, "'") + "' has no attribute '" + PyUnicode_AsUTF8(name) + "'");
  }
  // The program may give a module a class of its own, whose properties come first.
  if (!is_library_module(object_.get())) {
    add_guard(ex, GuardKind::kType, constant_source(object_.get()), as_object(type()));
    if (type() != &PyModule_Type && lookup_type(ex, type(), name) != _PyType_Lookup(&PyModule_Type, name))
      return SymbolicValue::get_attribute(ex, name);
  }
  PyObject* object = PyDict_GetItemWithError(dict, name);
  if (!object && PyErr_Occurred()) throw PythonError{};
  if (object) {
    const SourcePtr from = module_global_source(object_.get(), name);
    if (!is_library_module(object_.get()) || !is_library_definition(dict, name, object))
      return ex.wrap(object, from);
    // It is what it was, but another one may have been put in its place.
    add_guard(ex, GuardKind::kIdentity, from, object);
    return ex.wrap(object, constant_source(object));
  }
  const bool makes_names = PyDict_GetItemString(dict, "__getattr__");
  // Libraries make some names on demand (PEP 562), which may be there from then on.
  if (makes_names && is_library_module(object_.get())) {
    PyRef made = PyRef::steal(PyObject_GetAttr(object_.get(), name));
    if (!made) raise_current_error(ex);
    return ex.wrap(made.get(), constant_source(made.get()));
  }
  add_guard(ex, GuardKind::kKeyAbsent, constant_source(dict), name);
  if (makes_names) return SymbolicValue::get_attribute(ex, name);
  add_guard(ex, GuardKind::kKeyAbsent, constant_source(dict), interned("__getattr__"));
  PyRef made = PyRef::steal(PyObject_GetAttr(object_.get(), name));
  if (!made) raise_current_error(ex);
  return ex.wrap(made.get(), constant_source(made.get()));
}

void ModuleValue::set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) {
  if (!takes_assignments(object_.get(), name)) return SymbolicValue::set_attribute(ex, name, value);
  PyObject* dict = PyModule_GetDict(object_.get());
  const ValuePtr* assigned = assigned_name(ex, dict, name);
  if (!value && !(assigned ? static_cast<bool>(*assigned) : PyDict_Contains(dict, name) == 1))
    return SymbolicValue::set_attribute(ex, name, value);
  if (!value && !assigned)  // it is there in each call; its type tells
    guard_exact_type(ex, PyDict_GetItemWithError(dict, name), module_global_source(object_.get(), name));
  assign_name(ex, dict, name, value);
}

RecipePtr ModuleValue::recipe(Executor&) {
  if (!recipe_) recipe_ = make_recipe(RecipeKind::kConstant, object_.get());
  return recipe_;
}

}  // namespace cdynamo::symbolic
