#include "symbolic/interop/weak_reference_access.h"

namespace cdynamo::symbolic {

PyRef weak_reference(PyObject* object) {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) return {};
  PyRef reference = PyRef::steal(PyWeakref_NewRef(object, nullptr));
  if (!reference) PyErr_Clear();
  return reference;
}

PyRef referent(PyObject* reference) {
  if (!PyWeakref_Check(reference)) return {};
  PyObject* object = reinterpret_cast<PyWeakReference*>(reference)->wr_object;
  // An object that is being finalized is dead to its references.
  return PyRef::borrow(Py_REFCNT(object) > 0 ? object : Py_None);
}

}  // namespace cdynamo::symbolic
