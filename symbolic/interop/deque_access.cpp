#include "symbolic/interop/deque_access.h"

namespace cdynamo::symbolic {

PyTypeObject* deque_type() {
  static PyTypeObject* type = nullptr;
  if (type) return type;
  PyRef modules = PyRef::borrow(PyImport_GetModuleDict());
  PyObject* module = PyDict_GetItemString(modules.get(), "_collections");
  PyRef found = PyRef::steal(module ? PyObject_GetAttrString(module, "deque") : nullptr);
  if (!found) PyErr_Clear();
  if (found && PyType_Check(found.get())) type = reinterpret_cast<PyTypeObject*>(found.release());
  return type;
}

bool is_deque(PyObject* object) {
  PyTypeObject* type = deque_type();
  return type && PyObject_TypeCheck(object, type);
}

Py_ssize_t deque_length(PyObject* deque) { return deque_type()->tp_as_sequence->sq_length(deque); }

PyRef deque_item(PyObject* deque, Py_ssize_t index) {
  PyRef item = PyRef::steal(deque_type()->tp_as_sequence->sq_item(deque, index));
  if (!item) PyErr_Clear();
  return item;
}

}  // namespace cdynamo::symbolic
