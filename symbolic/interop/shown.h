// What logs, messages and names show of an object.
#pragma once

#include <string>

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// A number of some 10,000 digits or more: conversions take time that grows with the square of them.
bool is_long_number(PyObject* object);

// The object's repr; what it is where that would take long, and nothing where it fails.
std::string shown_repr(PyObject* object);

}  // namespace cdynamo::symbolic
