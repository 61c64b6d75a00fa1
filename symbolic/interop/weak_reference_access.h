// What a weakref.ref leads to, and the one that an object has: none of Python's code runs.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// weakref.ref(object): the same one as long as anybody holds it. Null, no error set: its class has none.
PyRef weak_reference(PyObject* object);
// What a weakref.ref or a proxy leads to; None: the object is dead. Null: it is neither.
PyRef referent(PyObject* reference);

}  // namespace cdynamo::symbolic
