// The contexts of decimal: by what rules operations round, and which signals raise an exception.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// repr(context) but for the flags, which operations set: they read none of them. Null, without an error, where it is no context.
inline PyRef decimal_rules(PyObject* context) {
  if (std::strcmp(Py_TYPE(context)->tp_name, "decimal.Context") != 0) return {};
  const PyRef shown = PyRef::steal(PyObject_Repr(context));
  const char* text = shown ? PyUnicode_AsUTF8(shown.get()) : nullptr;
  if (!text) return PyErr_Clear(), PyRef();
  const std::string_view all = text;
  const size_t flags = all.find(", flags="), traps = all.find(", traps=");
  const std::string rules = std::string(all.substr(0, flags)) + std::string(all.substr(traps));
  return PyRef::steal(PyUnicode_FromStringAndSize(rules.data(), static_cast<Py_ssize_t>(rules.size())));
}

}  // namespace cdynamo::symbolic
