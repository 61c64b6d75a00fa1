#include "symbolic/interop/loaded_object.h"

namespace cdynamo::symbolic {

PyRef loaded_object(const std::string& path) {
  size_t dot = path.find('.');
  PyRef object = PyRef::borrow(PyDict_GetItemString(PyImport_GetModuleDict(), path.substr(0, dot).c_str()));
  while (object && dot != path.npos) {
    size_t next = path.find('.', dot + 1);
    const std::string part = path.substr(dot + 1, next == path.npos ? next : next - dot - 1);
    if (PyModule_Check(object.get())) {
      object = PyRef::borrow(PyDict_GetItemString(PyModule_GetDict(object.get()), part.c_str()));
      // A package may have deleted the name of a module of its own (torch.optim.optimizer).
      if (!object)
        object = PyRef::borrow(PyDict_GetItemString(PyImport_GetModuleDict(), path.substr(0, next).c_str()));
    } else {
      object = PyRef::steal(PyObject_GetAttrString(object.get(), part.c_str()));
    }
    dot = next;
  }
  if (!object) PyErr_Clear();
  return object;
}

}  // namespace cdynamo::symbolic
