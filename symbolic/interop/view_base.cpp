#include "symbolic/interop/view_base.h"

#include "symbolic/interop/loaded_object.h"

namespace cdynamo::symbolic {

static PyRef base_of(PyObject* tensor) {
  PyRef base = PyRef::steal(PyObject_GetAttr(tensor, interned("_base")));
  if (!base) PyErr_Clear();
  return base && base.get() != Py_None ? std::move(base) : PyRef();
}

bool is_view_beside(PyObject* view, PyObject* other) {
  const PyRef base = base_of(view);
  return base && (base.get() == other || base.get() == base_of(other).get());
}

}  // namespace cdynamo::symbolic
