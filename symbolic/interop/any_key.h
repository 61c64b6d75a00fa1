// What stands in a guard on the keys of a dict for a key that has guards of its own.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

inline PyObject* any_key() {
  static PyObject* object = PyObject_CallNoArgs(as_object(&PyBaseObject_Type));
  return object;
}

}  // namespace cdynamo::symbolic
