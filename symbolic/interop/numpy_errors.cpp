#include "symbolic/interop/numpy_errors.h"

#include <string_view>

#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {
namespace {

bool ask_numpy() {
  PyObject* geterr = library_object("numpy", "geterr");
  PyRef treatments = geterr ? PyRef::steal(PyObject_CallNoArgs(geterr)) : PyRef();
  bool reports = false;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; treatments && PyDict_Next(treatments.get(), &at, &key, &value);) {
    const char* text = PyUnicode_AsUTF8(value);
    reports = reports || (text && std::string_view(text) != "ignore" && std::string_view(text) != "warn");
  }
  PyErr_Clear();
  return reports;
}

// Null: NumPy 1, or not imported.
PyObject* settings_variable() {
  static PyObject* variable = nullptr;
  if (!variable) variable = loaded_object("numpy._core.umath._extobj_contextvar").release();
  if (!variable) PyErr_Clear();
  return variable;
}

}  // namespace

bool is_numpy_error_settings(PyObject* variable) { return variable == settings_variable(); }

// NumPy 2 keeps the treatment as one object in a context variable: asking for it costs a few nanoseconds, and
// what it says is remembered by the object.
bool numpy_reports_errors() {
  PyObject* const variable = settings_variable();
  if (!variable) return ask_numpy();
  PyObject* found = nullptr;
  if (PyContextVar_Get(variable, nullptr, &found) < 0) PyErr_Clear();
  PyRef state = PyRef::steal(found);
  if (!state) return false;          // as it is at the start
  static PyRef& quiet = *new PyRef;  // Python objects may not be destroyed after the interpreter
  if (state.get() == quiet.get()) return false;
  if (ask_numpy()) return true;
  quiet = std::move(state);
  return false;
}

}  // namespace cdynamo::symbolic
