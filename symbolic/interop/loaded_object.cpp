#include "symbolic/interop/loaded_object.h"

#include <cstring>
#include <string_view>
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace cdynamo::symbolic {

PyRef loaded_object(const std::string& path) {
  size_t dot = path.find('.');
  PyRef object = PyRef::borrow(PyDict_GetItemString(PyImport_GetModuleDict(), path.substr(0, dot).c_str()));
  while (object && dot != path.npos) {
    size_t next = path.find('.', dot + 1);
    const std::string part = path.substr(dot + 1, next == path.npos ? next : next - dot - 1);
    // A module of a class of its own (torch.ops.aten) has names that it makes when asked for them.
    if (PyModule_CheckExact(object.get())) {
      object = PyRef::borrow(PyDict_GetItemString(PyModule_GetDict(object.get()), part.c_str()));
      // A package may have deleted the name of a module of its own (torch.optim.optimizer).
      if (!object)
        object = PyRef::borrow(PyDict_GetItemString(PyImport_GetModuleDict(), path.substr(0, next).c_str()));
    } else if (PyType_Check(object.get()) && part == "__dict__") {
      // "torch.Tensor.__dict__.split": as it stands in the class, not bound.
      PyObject* members = reinterpret_cast<PyTypeObject*>(object.get())->tp_dict;
      next = path.npos;
      object =
          PyRef::borrow(members ? PyDict_GetItemString(members, path.substr(dot + 10).c_str()) : nullptr);
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
  static auto* cache = new absl::flat_hash_map<const char*, PyObject*>;
  PyObject*& slot = (*cache)[text];
  if (!slot || std::strcmp(PyUnicode_AsUTF8(slot), text) != 0) {
    slot = PyUnicode_InternFromString(text);
    if (!slot) throw PythonError{};
  }
  return slot;
}

PyObject* library_object(const char* module, const char* name) {
  static auto* cache = new absl::flat_hash_map<std::string, PyObject*>;
  const std::string path = absl::StrCat(module, ".", name);
  if (auto known = cache->find(path); known != cache->end()) return known->second;
  PyRef found = PyRef::steal(PyImport_ImportModule(module));
  for (absl::string_view part : absl::StrSplit(name, '.')) {
    if (!found) break;
    found = PyRef::steal(PyObject_GetAttrString(found.get(), std::string(part).c_str()));
  }
  if (!found) PyErr_Clear();
  // The import may have come back here.
  return cache->try_emplace(path, Py_XNewRef(found.get())).first->second;
}

}  // namespace cdynamo::symbolic
