// Attributes of Python objects whose types are known, as C++ values:
//   const std::string name = text_attribute(call.get(), "name");
// Whatever Python raises for an attribute that is missing or of another type is a PythonError.
#pragma once

#include <cstdint>
#include <string>

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

inline int64_t integer_attribute(PyObject* object, const char* name) {
  PyRef value = checked(PyObject_GetAttrString(object, name));
  const int64_t integer = PyLong_AsLongLong(value.get());
  if (integer == -1 && PyErr_Occurred()) throw PythonError{};
  return integer;
}

inline std::string text_attribute(PyObject* object, const char* name) {
  PyRef text = checked(PyObject_GetAttrString(object, name));
  const char* utf8 = PyUnicode_AsUTF8(text.get());
  if (!utf8) throw PythonError{};
  return utf8;
}

}  // namespace cdynamo::symbolic
