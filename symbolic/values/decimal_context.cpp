#include "symbolic/values/decimal_context.h"

#include <string_view>

#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// The ContextVar of _decimal, which no module names; null: decimal is the one that is written in Python.
PyObject* context_variable() {
  static PyObject* found = nullptr;
  if (found) return found;
  checked(PyObject_CallNoArgs(library_object("decimal", "getcontext")));  // sets it in this thread
  const PyRef context = checked(PyContext_CopyCurrent());
  const PyRef variables = checked(PySequence_List(context.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(variables.get()); ++i) {
    PyObject* variable = PyList_GET_ITEM(variables.get(), i);
    const PyRef name = checked(PyObject_GetAttrString(variable, "name"));
    if (PyUnicode_CompareWithASCIIString(name.get(), "decimal_context") == 0)
      return found = Py_NewRef(variable);
  }
  return nullptr;
}

}  // namespace

void guard_decimal_context(Executor& ex, PyObject* object) {
  if (std::string_view(Py_TYPE(object)->tp_name) != "decimal.Decimal") return;
  PyObject* variable = context_variable();
  if (!variable) break_graph("CD0212", "decimal");
  const PyRef context = checked(PyObject_CallNoArgs(library_object("decimal", "getcontext")));
  const SourcePtr source = derived_source(SourceKind::kContextValue, constant_source(variable));
  add_guard(ex, GuardKind::kType, source, as_object(Py_TYPE(context.get())));
  for (const char* name : {"prec", "rounding", "Emin", "Emax", "capitals", "clamp"}) {
    const PyRef value = checked(PyObject_GetAttrString(context.get(), name));
    add_guard(ex, GuardKind::kEquals, attribute_source(source, interned(name)), value.get());
  }
}

}  // namespace cdynamo::symbolic
