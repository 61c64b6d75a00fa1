#include "symbolic/interop/context_access.h"

namespace cdynamo::symbolic {

PyObject* missing_in_context() {
  static PyObject* missing = nullptr;
  if (!missing)
    missing = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyContextToken_Type), "MISSING");
  return missing;
}

PyRef context_value(PyObject* variable) {
  PyObject* value = nullptr;
  if (!PyContextVar_CheckExact(variable) || PyContextVar_Get(variable, missing_in_context(), &value) < 0)
    PyErr_Clear();
  return PyRef::steal(value);
}

}  // namespace cdynamo::symbolic
