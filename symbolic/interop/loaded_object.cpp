#include "symbolic/interop/loaded_object.h"

#include <cstring>
#include <string_view>
#include <unordered_map>

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

PyObject* interned(const char* text) {
  // Keyed by address: callers pass literals.
  static auto* cache = new std::unordered_map<const char*, PyObject*>;
  PyObject*& slot = (*cache)[text];
  if (!slot || std::strcmp(PyUnicode_AsUTF8(slot), text) != 0) {
    slot = PyUnicode_InternFromString(text);
    if (!slot) throw PythonError{};
  }
  return slot;
}

PyObject* library_object(const char* module, const char* name) {
  static auto* cache = new std::unordered_map<std::string, PyObject*>;
  auto [it, inserted] = cache->try_emplace(std::string(module) + "." + name, nullptr);
  if (inserted) {
    PyRef found = PyRef::steal(PyImport_ImportModule(module));
    std::string_view rest = name;
    while (found && !rest.empty()) {
      size_t dot = std::min(rest.find('.'), rest.size());
      found = PyRef::steal(PyObject_GetAttrString(found.get(), std::string(rest.substr(0, dot)).c_str()));
      rest.remove_prefix(std::min(dot + 1, rest.size()));
    }
    if (!found) PyErr_Clear();
    it->second = Py_XNewRef(found.get());
  }
  return it->second;
}

}  // namespace cdynamo::symbolic
