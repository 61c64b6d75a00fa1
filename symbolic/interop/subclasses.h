// The subclasses that a class knows of (type.__subclasses__).
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// type.__subclasses__(cls), a new list. Null, with the error set, where there is no memory.
inline PyRef subclasses(PyObject* cls) {
  const PyRef method =
      PyRef::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyType_Type), "__subclasses__"));
  return method ? PyRef::steal(PyObject_CallOneArg(method.get(), cls)) : PyRef();
}

// From here on no base written in Python, but those that `stays` says, knows of the class. It has to be told itself of what changes
// in them: for a class that lives no longer than they stay as they are.
template <typename Stays>
void hide_from_bases(PyTypeObject* cls, Stays&& stays) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(cls->tp_bases); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(cls->tp_bases, i));
    if (!PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE) || stays(base)) continue;
    // remove_subclass (Objects/typeobject.c): a dict of addresses and weak references. One that is not there is none to take out
    // when the class dies.
    auto* subclasses = reinterpret_cast<PyObject*>(base->tp_subclasses);
    const PyRef address = PyRef::steal(PyLong_FromVoidPtr(cls));
    if (!address || !subclasses || PyDict_DelItem(subclasses, address.get()) < 0) PyErr_Clear();
  }
}

}  // namespace cdynamo::symbolic
