// collections.deque, which has no C API: its own slots, whatever a subclass has in their place.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// Null until collections was imported, which capture does before anything refers to a deque.
PyTypeObject* deque_type();
bool is_deque(PyObject* object);
Py_ssize_t deque_length(PyObject* deque);
// Null without an error where there is no such item.
PyRef deque_item(PyObject* deque, Py_ssize_t index);

}  // namespace cdynamo::symbolic
