// Abstract base classes (abc): what they have registered changes the classes that are their subclasses.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// abc.get_cache_token(): another one whenever a class has been registered with any abstract base class. Null, without an error:
// it is not known.
PyRef abc_cache_token();
inline bool same_token(PyObject* a, PyObject* b) {
  if (a == b) return a != nullptr;
  return a && b && PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

}  // namespace cdynamo::symbolic
