// The mapping that a types.MappingProxyType shows: Python has no name for it.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// Null, no error set: it is no proxy.
inline PyRef proxied_mapping(PyObject* proxy) {
  if (!Py_IS_TYPE(proxy, &PyDictProxy_Type)) return {};
  // The one object that it holds (mappingproxy_traverse, Objects/descrobject.c).
  PyObject* mapping = nullptr;
  const auto note = [](PyObject* held, void* found) {
    *static_cast<PyObject**>(found) = held;
    return 0;
  };
  PyDictProxy_Type.tp_traverse(proxy, note, &mapping);
  return PyRef::borrow(mapping);
}

}  // namespace cdynamo::symbolic
